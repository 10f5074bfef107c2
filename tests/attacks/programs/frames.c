// Sends frames that no honest container sends, with CAP_NET_RAW, at the hardware address of the bridge.
// usage: frames FORM MAC SOURCE DESTINATION PORT   (one UDP datagram whose payload is the form's name)
//   plain, broadcast; tag (a VLAN tag of id 0), tags, qinq (two); options (IP options), fragments, ring (a packet of which
//   the kernel holds all but the Ethernet header in pages); v6; advert (a router advertisement; PORT is of no use)
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

typedef unsigned char u8;
static u8 frame[1500];
static int length, sk;
static struct sockaddr_ll to;

static void put(const void *bytes, int count) { memcpy(frame + length, bytes, count); length += count; }
static void put16(unsigned value) { u8 bytes[2] = {value >> 8, value}; put(bytes, 2); }
static unsigned add(const u8 *bytes, int count, unsigned sum) {
  for (; count > 1; count -= 2, bytes += 2) sum += bytes[0] << 8 | bytes[1];
  return count ? sum + (bytes[0] << 8) : sum;
}
static unsigned fold(unsigned sum) { while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16); return ~sum & 0xffff; }

static int refused(const char *what) { perror(what); return 1; }

// One frame from a ring: only the Ethernet header is copied, the rest is pages of the ring.
static int ring(void) {
  struct tpacket_req req = {.tp_block_size = 4096, .tp_frame_size = 2048, .tp_block_nr = 1, .tp_frame_nr = 2};
  if (setsockopt(sk, SOL_PACKET, PACKET_TX_RING, &req, sizeof req) < 0) return refused("ring");
  u8 *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, sk, 0);
  if (memory == MAP_FAILED) return refused("mmap");
  struct tpacket_hdr *head = (void *)memory;
  memcpy(memory + TPACKET_HDRLEN - sizeof(struct sockaddr_ll), frame, length);
  head->tp_len = length;
  head->tp_status = TP_STATUS_SEND_REQUEST;
  if (sendto(sk, 0, 0, 0, (void *)&to, sizeof to) < 0) return refused("send the ring");
  return head->tp_status == TP_STATUS_WRONG_FORMAT;
}

static int sent(void) {
  return sendto(sk, frame, length, 0, (void *)&to, sizeof to) == length ? 0 : refused("send");
}

int main(int count, char **args) {
  if (count != 6) return 2;
  const char *form = args[1];
  unsigned mac[6];
  if (sscanf(args[2], "%x:%x:%x:%x:%x:%x", mac, mac + 1, mac + 2, mac + 3, mac + 4, mac + 5) != 6) return 2;
  sk = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
  struct ifreq request = {.ifr_name = "eth0"};
  if (sk < 0 || ioctl(sk, SIOCGIFINDEX, &request) < 0) return refused("eth0");
  to.sll_family = AF_PACKET;
  to.sll_ifindex = request.ifr_ifindex;
  to.sll_halen = 6;
  if (ioctl(sk, SIOCGIFHWADDR, &request) < 0) return refused("hardware address");
  for (int i = 0; i < 6; i++) frame[length++] = strcmp(form, "broadcast") ? mac[i] : 0xff;
  memcpy(to.sll_addr, frame, 6);
  put(request.ifr_hwaddr.sa_data, 6);
  if (!strcmp(form, "tag")) put("\x81\0\0\0", 4);
  if (!strcmp(form, "tags")) put("\x81\0\0\0\x81\0\0\0", 8);
  if (!strcmp(form, "qinq")) put("\x88\xa8\0\0\x81\0\0\0", 8);
  int named = strlen(form), port = atoi(args[5]);
  u8 from6[16], to6[16];
  if (inet_pton(AF_INET6, args[4], to6) == 1) {
    int advert = !strcmp(form, "advert"), size = advert ? 16 + 32 : 8 + named, next = advert ? 58 : 17;
    if (inet_pton(AF_INET6, args[3], from6) != 1) return 2;
    put16(ETH_P_IPV6);
    put("\x60\0\0\0", 4); put16(size); put((u8[]){next, 255}, 2); put(from6, 16); put(to6, 16);
    int begin = length, check = advert ? 2 : 6;
    if (advert) {
      // A router for 1800 s, and a prefix to make addresses of.
      put("\x86\0\0\0\x40\0\x07\x08\0\0\0\0\0\0\0\0", 16);
      put("\x03\x04\x40\xc0\0\0\xff\xff\0\0\xff\xff\0\0\0\0\xfd\xad\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32);
    } else {
      put16(40000); put16(port); put16(size); put16(0); put(form, named);
    }
    unsigned sum = fold(add(frame + begin, size, add(from6, 16, add(to6, 16, next + size))));
    frame[begin + check] = sum >> 8; frame[begin + check + 1] = sum;
    return sent();
  }
  unsigned from4, to4;
  if (inet_pton(AF_INET, args[3], &from4) != 1 || inet_pton(AF_INET, args[4], &to4) != 1) return 2;
  int optional = strcmp(form, "options") ? 0 : 4, parts = strcmp(form, "fragments") ? 1 : 2, named4 = parts == 2 ? 16 : named;
  int begin = length;
  for (int part = 0; part < parts; part++) {
    // The second part is what is behind the first 16 bytes of the datagram.
    int size = parts == 1 ? 8 + named4 : part ? 8 : 16, offset = parts == 2 ? (part ? 2 : 0x2000) : 0;
    length = begin;
    put16(ETH_P_IP);
    int ip = length;
    put((u8[]){0x45 + optional / 4, 0}, 2); put16(20 + optional + size); put16(7); put16(offset); put("\x40\x11\0\0", 4);
    put(&from4, 4); put(&to4, 4); put("\1\1\1\0", optional);
    unsigned sum = fold(add(frame + ip, 20 + optional, 0));
    frame[ip + 10] = sum >> 8; frame[ip + 11] = sum;
    // Without a checksum.
    if (!part) { put16(40000); put16(port); put16(8 + named4); put16(0); put("fragments       ", parts == 2 ? 8 : 0); }
    if (parts == 1) put(form, named4);
    if (part) put("s       ", 8);
    if (!strcmp(form, "ring") ? ring() : sent()) return 1;
  }
  return 0;
}
