package node

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"coracle.dev/swarm/refusal"
)

var errNotAnAddress = errors.New("not an address")

// resolve gives the address of an interface's name, or reads an address.
func resolve(text string) (net.IP, error) {
	if found, err := net.InterfaceByName(text); err == nil {
		return ofInterface(found)
	}
	if ip := net.ParseIP(text); ip != nil {
		return ip, nil
	}
	return nil, errNotAnAddress
}

// ofInterface gives the only address of a family, IPv4 before IPv6.
func ofInterface(link *net.Interface) (net.IP, error) {
	addresses, err := link.Addrs()
	if err != nil {
		return nil, err
	}
	var families [2]net.IP
	for _, address := range addresses {
		ip := ipOf(address)
		if ip == nil {
			continue
		}
		family, name := 0, "IPv4"
		if ip.To4() == nil {
			family, name = 1, "IPv6"
		}
		if families[family] != nil {
			const text = "interface %s has more than one %s address (%s and %s)"
			return nil, refusal.Invalid(text, link.Name, name, families[family], ip)
		}
		families[family] = ip
	}
	for _, ip := range families {
		if ip != nil {
			return ip, nil
		}
	}
	return nil, refusal.Invalid("interface %s has no usable IPv4 or IPv6 address", link.Name)
}

func ipOf(address net.Addr) net.IP {
	if found, ok := address.(*net.IPNet); ok {
		return found.IP
	}
	return nil
}

// listenAddress reads ListenAddr: HOST:PORT, where HOST is an address or an interface.
func listenAddress(text string) (host, port string, err error) {
	if text == "" {
		return "", "", refusal.Invalid(`invalid ListenAddr "": invalid empty address`)
	}
	host, port, err = net.SplitHostPort(text)
	if err != nil {
		return "", "", refusal.Invalid("could not parse listen address %s", text)
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return "", "", refusal.Invalid("invalid ListenAddr %q: the port %q is not a number from 0 to 65535", text, port)
	}
	ip, err := resolve(host)
	if errors.Is(err, errNotAnAddress) {
		return "", "", refusal.Invalid("listen address must be an IP address or network interface (with optional port number)")
	}
	if err != nil {
		return "", "", err
	}
	return ip.String(), port, nil
}

// advertised reads AdvertiseAddr: an address or an interface, with a port or without one.
func advertised(text, listenPort string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = text, listenPort
	}
	ip, err := resolve(host)
	if errors.Is(err, errNotAnAddress) || (err == nil && ip.IsUnspecified()) {
		const text = "advertise address must be a non-zero IP address or network interface (with optional port number)"
		return "", refusal.Invalid(text)
	}
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(ip.String(), port), nil
}

// dataPath reads DataPathAddr: an address or an interface, without a port; empty: none is named.
func dataPath(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	ip, err := resolve(text)
	if errors.Is(err, errNotAnAddress) || (err == nil && ip.IsUnspecified()) {
		const text = "data path address must be a non-zero IP address or network interface (without a port number)"
		return "", refusal.Invalid(text)
	}
	if err != nil {
		return "", err
	}
	return ip.String(), nil
}

// systemAddress is the only address of the machine that others may reach; where are networks whose bridges belong to an engine.
func systemAddress(own []*net.IPNet) (net.IP, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	type candidate struct {
		ip   net.IP
		link string
	}
	var families [2][]candidate
	for _, link := range links {
		if link.Flags&net.FlagUp == 0 || link.Flags&net.FlagLoopback != 0 {
			continue
		}
		addresses, err := link.Addrs()
		if err != nil {
			return nil, err
		}
		for _, address := range addresses {
			ip := ipOf(address)
			switch {
			case ip == nil || !ip.IsGlobalUnicast() || inAny(own, ip):
			case ip.To4() != nil:
				families[0] = append(families[0], candidate{ip, link.Name})
			default:
				families[1] = append(families[1], candidate{ip, link.Name})
			}
		}
	}
	for _, found := range families {
		switch len(found) {
		case 0:
		case 1:
			return found[0].ip, nil
		default:
			a, b := found[0], found[1]
			if a.link == b.link {
				const text = "could not choose an IP address to advertise since this system has multiple addresses on interface %s (%s and %s) - specify one with --advertise-addr"
				return nil, refusal.Invalid(text, a.link, a.ip, b.ip)
			}
			const text = "could not choose an IP address to advertise since this system has multiple addresses on different interfaces (%s on %s and %s on %s) - specify one with --advertise-addr"
			return nil, refusal.Invalid(text, a.ip, a.link, b.ip, b.link)
		}
	}
	return nil, refusal.Invalid("could not find the system's IP address - specify one with --advertise-addr")
}

func inAny(networks []*net.IPNet, ip net.IP) bool {
	for _, network := range networks {
		if network.Contains(ip) {
			return true
		}
	}
	return false
}

// isOwn tells whether the machine has an address.
func isOwn(wanted net.IP) bool {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, address := range addresses {
		if ip := ipOf(address); ip != nil && ip.Equal(wanted) {
			return true
		}
	}
	return false
}

// checkPool checks what the subnets of overlay networks are taken from.
func checkPool(pool []string, size uint32) error {
	if pool == nil {
		return nil
	}
	if size == 0 {
		size = 24
	}
	if size > 29 {
		return refusal.Invalid("subnet size is out of range: %d", size)
	}
	for i, text := range pool {
		pool[i] = strings.TrimSpace(text)
		_, network, err := net.ParseCIDR(pool[i])
		if err != nil {
			return refusal.Invalid("invalid base pool %s: %v", pool[i], err)
		}
		if ones, _ := network.Mask.Size(); int(size) < ones {
			return refusal.Invalid("invalid CIDR: %q. Subnet size is too small for pool: %d", pool[i], size)
		}
	}
	return nil
}

// dataPort checks the port of the data path; 0 is the usual one.
func dataPort(port uint32) (uint32, error) {
	switch {
	case port == 0:
		return 4789, nil
	case port < 1024 || port > 49151:
		return 0, refusal.Invalid("%s", fmt.Sprintf("Datapath port number is not in valid range (1024-49151) : %d", port))
	}
	return port, nil
}
