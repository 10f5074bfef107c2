// Asks a server over TCP by frames of its own (CAP_NET_RAW, which every container has), sent to the hardware address of the
// bridge: so to an address of the host that the container's kernel would send to no bridge.
// usage: request MAC DESTINATION PORT TEXT   (exit 0: the answer is printed; 1: the frames were sent, and nothing came back)
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#define __FAVOR_BSD
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int sk;
static struct sockaddr_ll bridge = {.sll_family = AF_PACKET, .sll_halen = 6};
static unsigned own, theirs, next = 5000, seen;
static unsigned short port, from;

static void refused(const char *what) { perror(what); exit(2); }

static unsigned add(const void *bytes, int count, unsigned sum) {
  const unsigned char *at = bytes;
  for (; count > 1; count -= 2, at += 2) sum += at[0] << 8 | at[1];
  return count ? sum + (at[0] << 8) : sum;
}
static unsigned short fold(unsigned sum) { while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16); return htons(~sum); }

static void say(int flags, const char *text) {
  struct { struct ip ip; struct tcphdr tcp; char text[512]; } packet = {0};
  int length = strlen(text), segment = sizeof packet.tcp + length, whole = sizeof packet.ip + segment;
  packet.ip = (struct ip){.ip_v = 4, .ip_hl = 5, .ip_len = htons(whole), .ip_ttl = 64, .ip_p = IPPROTO_TCP};
  packet.ip.ip_src.s_addr = own;
  packet.ip.ip_dst.s_addr = theirs;
  packet.ip.ip_sum = fold(add(&packet.ip, sizeof packet.ip, 0));
  packet.tcp.th_sport = from;
  packet.tcp.th_dport = port;
  packet.tcp.th_seq = htonl(next);
  packet.tcp.th_ack = htonl(seen);
  packet.tcp.th_off = 5;
  packet.tcp.th_flags = flags;
  packet.tcp.th_win = htons(30000);
  memcpy(packet.text, text, length);
  packet.tcp.th_sum = fold(add(&packet.tcp, segment, add(&packet.ip.ip_src, 8, IPPROTO_TCP + segment)));
  if (sendto(sk, &packet, whole, 0, (void *)&bridge, sizeof bridge) != whole) refused("send");
}

int main(int count, char **args) {
  unsigned mac[6];
  char packet[65536];
  if (count != 5 || strlen(args[4]) > 500) return 2;
  if (sscanf(args[1], "%x:%x:%x:%x:%x:%x", mac, mac + 1, mac + 2, mac + 3, mac + 4, mac + 5) != 6) return 2;
  for (int i = 0; i < 6; i++) bridge.sll_addr[i] = mac[i];
  if (inet_pton(AF_INET, args[2], &theirs) != 1) return 2;
  port = htons(atoi(args[3]));
  from = htons(20000 + getpid() % 10000);
  sk = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP));
  struct ifreq request = {.ifr_name = "eth0"};
  if (sk < 0 || ioctl(sk, SIOCGIFINDEX, &request) < 0) refused("eth0");
  bridge.sll_ifindex = request.ifr_ifindex;
  bridge.sll_protocol = htons(ETH_P_IP);
  if (ioctl(sk, SIOCGIFADDR, &request) < 0) refused("its address");
  own = ((struct sockaddr_in *)&request.ifr_addr)->sin_addr.s_addr;
  say(TH_SYN, "");
  for (int asked = 0;;) {
    struct pollfd ready = {.fd = sk, .events = POLLIN};
    if (poll(&ready, 1, 1500) <= 0) return puts("no answer") < 0 ? 2 : 1;
    int got = recv(sk, packet, sizeof packet, 0);
    struct ip *ip = (void *)packet;
    struct tcphdr *tcp = (void *)(packet + ip->ip_hl * 4);
    if (got < 40 || ip->ip_p != IPPROTO_TCP || ip->ip_src.s_addr != theirs || tcp->th_sport != port || tcp->th_dport != from) continue;
    if (tcp->th_flags & TH_RST) return puts("refused") < 0 ? 2 : 3;
    int head = ip->ip_hl * 4 + tcp->th_off * 4, length = ntohs(ip->ip_len) - head;
    if (!asked && tcp->th_flags & TH_SYN) {
      seen = ntohl(tcp->th_seq) + 1;
      next++;
      say(TH_ACK, "");
      say(TH_ACK | TH_PUSH, args[4]);
      asked = 1;
    } else if (length > 0) {
      return write(1, packet + head, length) != length;
    }
  }
}
