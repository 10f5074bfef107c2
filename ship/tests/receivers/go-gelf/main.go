// A receiver of GELF by the library that dockerd sends with: `main udp|tcp ADDRESS FILE` writes each message as a line of
// JSON.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"log"
	"net"
	"os"
	"sync"

	"github.com/Graylog2/go-gelf/gelf"
)

var lock sync.Mutex

func put(out *os.File, message *gelf.Message) {
	lock.Lock()
	defer lock.Unlock()
	line, err := json.Marshal(map[string]interface{}{
		"version": message.Version, "host": message.Host, "short": message.Short, "time": message.TimeUnix,
		"level": message.Level, "extra": message.Extra,
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		log.Fatal(err)
	}
}

func datagrams(address string, out *os.File) {
	reader, err := gelf.NewReader(address)
	if err != nil {
		log.Fatal(err)
	}
	ready()
	for {
		message, err := reader.ReadMessage()
		if err != nil {
			log.Fatal(err)
		}
		put(out, message)
	}
}

func atNul(data []byte, end bool) (int, []byte, error) {
	if at := bytes.IndexByte(data, 0); at >= 0 {
		return at + 1, data[:at], nil
	}
	return 0, nil, nil
}

// The library's own reader of TCP is private: only the split at NUL is ours.
func stream(connection net.Conn, out *os.File) {
	scanner := bufio.NewScanner(connection)
	scanner.Buffer(nil, 1<<20)
	scanner.Split(atNul)
	for scanner.Scan() {
		message := new(gelf.Message)
		if err := message.UnmarshalJSON(scanner.Bytes()); err != nil {
			log.Fatal(err)
		}
		put(out, message)
	}
}

func ready() {
	if err := os.WriteFile(os.Args[3]+".ready", nil, 0o600); err != nil {
		log.Fatal(err)
	}
}

func main() {
	out, err := os.OpenFile(os.Args[3], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	if os.Args[1] == "udp" {
		datagrams(os.Args[2], out)
	}
	listener, err := net.Listen("tcp", os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	ready()
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go stream(connection, out)
	}
}
