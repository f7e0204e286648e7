/* Delays the packets of an iptables queue (NFQUEUE), in the network namespace that it runs in:
 * slow_link QUEUE MIN_US MAX_US. Each packet waits for a time between the two; none overtakes another.
 * It is for kernels without netem (tests/src/slow_link.rs). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WAITING_MAX 65536

struct waiting {
	uint32_t id; /* in network order */
	int64_t due_us;
};

static struct waiting waiting[WAITING_MAX];
static uint32_t first, last;

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

/* Sends one message with one attribute. */
static void send_message(int fd, uint16_t queue, int type, int flags, int attribute,
			 const void *body, uint16_t length)
{
	char buffer[256] = {0};
	struct nlmsghdr *header = (struct nlmsghdr *)buffer;
	struct nfgenmsg *general = NLMSG_DATA(header);
	struct nlattr *attr = (struct nlattr *)((char *)general + NLMSG_ALIGN(sizeof *general));

	general->nfgen_family = AF_UNSPEC;
	general->version = NFNETLINK_V0;
	general->res_id = htons(queue);
	attr->nla_type = (uint16_t)attribute;
	attr->nla_len = (uint16_t)(NLA_HDRLEN + length);
	memcpy((char *)attr + NLA_HDRLEN, body, length);
	header->nlmsg_len = (uint32_t)(NLMSG_LENGTH(sizeof *general) + NLA_ALIGN(attr->nla_len));
	header->nlmsg_type = (uint16_t)(NFNL_SUBSYS_QUEUE << 8 | type);
	header->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	if (send(fd, buffer, header->nlmsg_len, 0) < 0) {
		perror("slow_link: send");
		exit(1);
	}
}

/* Waits for the answer to a message that wants one. */
static void expect_done(int fd, const char *what)
{
	char buffer[8192];
	ssize_t length = recv(fd, buffer, sizeof buffer, 0);
	struct nlmsghdr *header = (struct nlmsghdr *)buffer;

	if (length < (ssize_t)NLMSG_LENGTH(sizeof(int)) || header->nlmsg_type != NLMSG_ERROR ||
	    *(int *)NLMSG_DATA(header) != 0) {
		fprintf(stderr, "slow_link: %s is refused\n", what);
		exit(1);
	}
}

static void let_pass(int fd, uint16_t queue, uint32_t id)
{
	struct nfqnl_msg_verdict_hdr verdict = {.verdict = htonl(NF_ACCEPT), .id = id};

	send_message(fd, queue, NFQNL_MSG_VERDICT, 0, NFQA_VERDICT_HDR, &verdict, sizeof verdict);
}

/* Takes the packets of a datagram of messages. */
static void take(char *buffer, ssize_t length, int64_t min_us, int64_t max_us)
{
	static int64_t newest_us;
	struct nlmsghdr *header = (struct nlmsghdr *)buffer;
	int64_t now = now_us();

	for (; NLMSG_OK(header, (uint32_t)length); header = NLMSG_NEXT(header, length)) {
		if (header->nlmsg_type != (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET))
			continue;
		char *at = (char *)NLMSG_DATA(header) + NLMSG_ALIGN(sizeof(struct nfgenmsg));
		char *end = (char *)header + header->nlmsg_len;

		while (at + NLA_HDRLEN <= end) {
			struct nlattr *attr = (struct nlattr *)at;

			if (attr->nla_len < NLA_HDRLEN)
				break;
			if ((attr->nla_type & NLA_TYPE_MASK) == NFQA_PACKET_HDR) {
				struct nfqnl_msg_packet_hdr packet;
				int64_t due = now + min_us;

				memcpy(&packet, at + NLA_HDRLEN, sizeof packet);
				if (max_us > min_us)
					due += random() % (max_us - min_us);
				newest_us = due > newest_us ? due : newest_us;
				waiting[last % WAITING_MAX].id = packet.packet_id;
				waiting[last % WAITING_MAX].due_us = newest_us;
				last++;
			}
			at += NLA_ALIGN(attr->nla_len);
		}
	}
}

int main(int argc, char **argv)
{
	static char buffer[1 << 16];
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct nfqnl_msg_config_cmd bind_queue = {.command = NFQNL_CFG_CMD_BIND};
	struct nfqnl_msg_config_params params = {.copy_range = 0, .copy_mode = NFQNL_COPY_META};
	uint32_t length_max = htonl(WAITING_MAX - 1);

	if (argc != 4) {
		fprintf(stderr, "slow_link QUEUE MIN_US MAX_US\n");
		return 2;
	}
	uint16_t queue = (uint16_t)atoi(argv[1]);
	int64_t min_us = atoll(argv[2]), max_us = atoll(argv[3]);
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);

	if (fd < 0 || connect(fd, (struct sockaddr *)&kernel, sizeof kernel) < 0) {
		perror("slow_link: socket");
		return 1;
	}
	send_message(fd, queue, NFQNL_MSG_CONFIG, NLM_F_ACK, NFQA_CFG_CMD, &bind_queue,
		     sizeof bind_queue);
	expect_done(fd, "the queue");
	send_message(fd, queue, NFQNL_MSG_CONFIG, NLM_F_ACK, NFQA_CFG_PARAMS, &params, sizeof params);
	expect_done(fd, "copying of headers");
	send_message(fd, queue, NFQNL_MSG_CONFIG, NLM_F_ACK, NFQA_CFG_QUEUE_MAXLEN, &length_max,
		     sizeof length_max);
	expect_done(fd, "the length of the queue");
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct pollfd polled = {.fd = fd, .events = POLLIN};
		int64_t wait_us = -1;

		if (first != last) {
			wait_us = waiting[first % WAITING_MAX].due_us - now_us();
			wait_us = wait_us < 0 ? 0 : wait_us;
		}
		struct timespec span = {wait_us / 1000000, wait_us % 1000000 * 1000};

		if (ppoll(&polled, 1, wait_us < 0 ? NULL : &span, NULL) > 0) {
			ssize_t length = recv(fd, buffer, sizeof buffer, 0);

			if (length > 0)
				take(buffer, length, min_us, max_us);
		}
		while (first != last && waiting[first % WAITING_MAX].due_us <= now_us())
			let_pass(fd, queue, waiting[first++ % WAITING_MAX].id);
	}
}
