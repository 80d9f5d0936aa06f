/*
 * fleet_kit.h: real Valkey and Redis servers as processes, on free ports of loopback.
 *
 * The programs are those of PATH, or those that `tools/deps.sh --tools` has unpacked into
 * .deps/fleet. A server never outlives the test, and is started again with the same port.
 *
 * Threads: all functions belong to the test's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fleet_server {
    pid_t pid;
    uint16_t port;
    uint16_t tls_port; /* 0: none */
    char url[128];     /* valkey://127.0.0.1:PORT/test, or valkeys:// with the port of TLS */
    char dir[512];
    const char *program; /* a literal */
    char args[1024];
};

/* The path of a program; NULL: there is none. Borrowed until the next call. */
const char *fleet_find_program(const char *name);
/* Skips the test when there is no such program. `args`: more options, separated by blanks. */
void fleet_need(const char *program);
void fleet_start(struct fleet_server *server, const char *program, const char *args);
void fleet_restart(struct fleet_server *server);
void fleet_kill(struct fleet_server *server); /* SIGKILL */
/* Sends one command, with its words separated by blanks, and returns the first line of the reply,
 * borrowed until the next call. Fails when there is none. */
const char *fleet_ask(const struct fleet_server *server, const char *command);
/* The same for a reply that is a short string. */
const char *fleet_ask_value(const struct fleet_server *server, const char *command);

bool fleet_is_master(const struct fleet_server *server); /* or a replica */

/* Any program, which does not outlive the test; its output goes to the file. */
pid_t fleet_spawn(char *const *argv, const char *log);
void fleet_end(pid_t pid); /* SIGKILL */
/* Whether a program listens there. */
bool fleet_is_up(uint16_t port);

uint16_t fleet_free_port(void);

/* Changes a byte of a part of an object, or deletes the part, in the store of a shared tier that was
 * opened with these options. */
struct kv_options;
struct tier_shared_options;
struct hash256;
void fleet_damage(const struct tier_shared_options *options, const struct hash256 *key);
void fleet_delete_part(const struct tier_shared_options *options, const struct hash256 *key);

/* Opens the breaker of a server that cannot be used; what the log says. Borrowed until the next
 * call. */
const char *fleet_breaker_line(const struct kv_options *options);

/* A key for --ssd-encrypt: servers that share objects have the same. Borrowed. */
const char *fleet_key_file(void);

/* Three masters with a replica each; skips the test where valkey-cli is missing. */
enum { FLEET_CLUSTER = 6 };
void fleet_start_cluster(struct fleet_server servers[FLEET_CLUSTER]);
/* The same with TLS for clients, replicas and the nodes among themselves, with the certificate of
 * fleet_make_certificate. */
void fleet_start_tls_cluster(struct fleet_server servers[FLEET_CLUSTER]);
/* Makes a certificate of localhost and 127.0.0.1 that signs itself: NAME.pem and NAME.key in
 * test_dir(). The path of NAME.pem, borrowed until the next call; NULL: there is no openssl. */
const char *fleet_make_certificate(const char *name);
/* Waits until the cluster is whole, as far as this server knows. */
void fleet_wait_cluster(const struct fleet_server *server);
/* Runs valkey-cli with these arguments, and expects success. */
void fleet_cli(const char *args);
pid_t fleet_cli_start(const char *args); /* does not wait for it */
void fleet_cli_end(pid_t pid);
