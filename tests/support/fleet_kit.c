/*
 * fleet_kit.c: fork, exec, and a socket to talk to the server.
 */
#include "support/fleet_kit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "support/test.h"
#include "tier/shared_object.h"
#include "tier/tier_shared.h"

enum { ARGS_MAX = 40, WAIT_TRIES = 600, PAUSE_MS = 50 };

static pid_t running[16];

static void kill_running(void)
{
    for (size_t i = 0; i < COUNT_OF(running); i++)
        if (running[i] > 0)
            kill(running[i], SIGKILL);
}

static void remember(pid_t old, pid_t new)
{
    static bool registered;

    if (!registered)
        atexit(kill_running);
    registered = true;
    for (size_t i = 0; i < COUNT_OF(running); i++) {
        if (running[i] != old)
            continue;
        running[i] = new;
        return;
    }
    fail_msg("too many servers");
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
}

const char *fleet_find_program(const char *name)
{
    static char path[1024];
    char *dirs = strdup(getenv("PATH") ? getenv("PATH") : "");
    const char *found = NULL;

    snprintf(path, sizeof(path), ".deps/fleet/bin/%s", name);
    if (access(path, X_OK) == 0)
        found = path;
    for (char *rest = dirs, *dir; found == NULL && (dir = strsep(&rest, ":")) != NULL;) {
        snprintf(path, sizeof(path), "%s/%s", dir, name);
        found = access(path, X_OK) == 0 ? path : NULL;
    }
    free(dirs);
    return found;
}

void fleet_need(const char *program)
{
    if (fleet_find_program(program) == NULL)
        TEST_SKIP("no Valkey or Redis server here; tools/deps.sh --tools fetches them");
}

uint16_t fleet_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    for (;;) { /* a cluster needs the port 10,000 above it as well */
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        address.sin_port = 0;
        assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
        close(fd);
        if (ntohs(address.sin_port) < 50000)
            return ntohs(address.sin_port);
    }
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* The reply, until it has this text; false: none came. */
static bool ask_until(uint16_t port, const char *command, const char *until, char *reply,
                      size_t size)
{
    char line[1024];
    int fd = connect_to(port);
    size_t len = 0;
    ssize_t got = 1;

    if (fd < 0)
        return false;
    int n = snprintf(line, sizeof(line), "%s\r\n", command);
    if (send(fd, line, (size_t)n, MSG_NOSIGNAL) != n)
        got = 0;
    while (got > 0 && len < size - 1) {
        got = recv(fd, reply + len, size - 1 - len, 0);
        len += got > 0 ? (size_t)got : 0;
        reply[len] = '\0';
        if (strstr(reply, until) != NULL)
            break;
    }
    close(fd);
    return len > 0;
}

/* The first line of the reply. */
static bool ask(uint16_t port, const char *command, char *reply, size_t size)
{
    return ask_until(port, command, "\r\n", reply, size);
}

const char *fleet_ask(const struct fleet_server *server, const char *command)
{
    static char reply[4096];

    if (!ask(server->port, command, reply, sizeof(reply)))
        fail_msg("%s: no answer to %s", server->url, command);
    reply[strcspn(reply, "\r")] = '\0';
    return reply;
}

bool fleet_is_master(const struct fleet_server *server)
{
    char reply[4096];

    if (!ask_until(server->port, "INFO replication", "_", reply, sizeof(reply)))
        fail_msg("%s: no answer", server->url);
    return strstr(reply, "role:master") != NULL;
}

const char *fleet_ask_value(const struct fleet_server *server, const char *command)
{
    static char reply[4096];

    if (!ask(server->port, command, reply, sizeof(reply)) || reply[0] != '$')
        fail_msg("%s: no value for %s", server->url, command);
    char *value = strchr(reply, '\n') + 1;
    value[strcspn(value, "\r")] = '\0';
    return value;
}

/* Splits at blanks, in place. */
static size_t split(char *text, char **words, size_t max)
{
    size_t count = 0;

    for (char *rest = text, *word; (word = strsep(&rest, " ")) != NULL;)
        if (word[0] != '\0' && count < max)
            words[count++] = word;
    return count;
}

pid_t fleet_spawn(char *const *argv, const char *log)
{
    pid_t parent = getpid(), pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            execv(argv[0], argv);
        _exit(127);
    }
    remember(0, pid);
    return pid;
}

void fleet_end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    remember(pid, 0);
}

bool fleet_is_up(uint16_t port)
{
    int fd = connect_to(port);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void launch(struct fleet_server *server)
{
    char port[8], args[sizeof(server->args)], *argv[ARGS_MAX], log[600];
    const char *program = fleet_find_program(server->program);

    assert_non_null(program);
    snprintf(port, sizeof(port), "%u", server->port);
    snprintf(args, sizeof(args), "%s", server->args);
    snprintf(log, sizeof(log), "%s/log", server->dir);
    const char *fixed[] = {program, "--port",       port, "--bind", "127.0.0.1", "--save",
                           "",      "--appendonly", "no", "--dir",  server->dir};
    memcpy(argv, fixed, sizeof(fixed));
    size_t count = COUNT_OF(fixed);
    count += split(args, argv + count, ARGS_MAX - count - 1);
    argv[count] = NULL;
    server->pid = fleet_spawn(argv, log);
}

static void wait_until_up(struct fleet_server *server)
{
    char reply[256];

    for (int i = 0; i < WAIT_TRIES; i++) {
        if (ask(server->port, "PING", reply, sizeof(reply)) &&
            (strncmp(reply, "+PONG", 5) == 0 || strstr(reply, "NOAUTH") != NULL))
            return;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            remember(server->pid, 0);
            fail_msg("%s does not start: see %s/log", server->program, server->dir);
        }
        pause_briefly();
    }
    fail_msg("%s does not answer", server->program);
}

void fleet_start(struct fleet_server *server, const char *program, const char *args)
{
    static unsigned number;

    fleet_need(program);
    *server = (struct fleet_server){.program = program, .port = fleet_free_port()};
    snprintf(server->args, sizeof(server->args), "%s", args);
    snprintf(server->dir, sizeof(server->dir), "%s/kv.%u", test_dir(), number++);
    snprintf(server->url, sizeof(server->url), "valkey://127.0.0.1:%u/test", server->port);
    assert_int_equal(mkdir(server->dir, 0700), 0);
    launch(server);
    wait_until_up(server);
}

void fleet_restart(struct fleet_server *server)
{
    launch(server);
    wait_until_up(server);
}

void fleet_kill(struct fleet_server *server)
{
    fleet_end(server->pid);
    server->pid = 0;
}

pid_t fleet_cli_start(const char *args)
{
    char words[1024], log[600], *argv[ARGS_MAX];

    fleet_need("valkey-cli");
    snprintf(words, sizeof(words), "%s %s", fleet_find_program("valkey-cli"), args);
    snprintf(log, sizeof(log), "%.500s/cli.log", test_dir());
    argv[split(words, argv, ARGS_MAX - 1)] = NULL;
    return fleet_spawn(argv, log);
}

void fleet_cli_end(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    remember(pid, 0);
    if (status != 0)
        fail_msg("valkey-cli gave %d: see cli.log", status);
}

void fleet_cli(const char *args)
{
    char command[2048];

    fleet_need("valkey-cli");
    snprintf(command, sizeof(command), "%s %s >%s/cli.log 2>&1 </dev/null",
             fleet_find_program("valkey-cli"), args, test_dir());
    int status = system(command);
    if (status != 0)
        fail_msg("'%s' gave %d: see cli.log", command, status);
}

/* Its cluster is whole, as far as this server knows. */
void fleet_wait_cluster(const struct fleet_server *server)
{
    for (int i = 0; i < WAIT_TRIES; i++) {
        if (strcmp(fleet_ask(server, "SET {probe}x 1"), "+OK") == 0 ||
            strncmp(fleet_ask(server, "SET {probe}x 1"), "-MOVED", 6) == 0)
            return;
        pause_briefly();
    }
    fail_msg("the cluster is not whole: %s", fleet_ask(server, "SET {probe}x 1"));
}

const char *fleet_make_certificate(const char *name)
{
    static char path[600];
    char command[2048];

    snprintf(path, sizeof(path), "%.500s/%s.pem", test_dir(), name);
    snprintf(
        command, sizeof(command),
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout %.500s/%s.key -out %s -days 2 "
        "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 >/dev/null 2>&1",
        test_dir(), name, path);
    return system(command) == 0 ? path : NULL;
}

/* `tls`: more options of a server with its port of TLS as the last one; NULL: no TLS. */
static void start_cluster(struct fleet_server servers[FLEET_CLUSTER], const char *tls,
                          const char *cli)
{
    char args[1024], options[sizeof(servers[0].args)];

    fleet_need("valkey-cli");
    snprintf(args, sizeof(args), "%s--cluster create", cli);
    for (int i = 0; i < FLEET_CLUSTER; i++) {
        uint16_t tls_port = tls != NULL ? fleet_free_port() : 0;
        int len = snprintf(options, sizeof(options),
                           "--cluster-enabled yes --cluster-node-timeout 1500 "
                           "--cluster-replica-validity-factor 0");
        if (tls != NULL)
            snprintf(options + len, sizeof(options) - (size_t)len, "%s %u", tls, tls_port);
        fleet_start(&servers[i], "valkey-server", options);
        servers[i].tls_port = tls_port;
        if (tls != NULL)
            snprintf(servers[i].url, sizeof(servers[i].url), "valkeys://127.0.0.1:%u/test",
                     tls_port);
        snprintf(args + strlen(args), sizeof(args) - strlen(args), " 127.0.0.1:%u",
                 tls != NULL ? tls_port : servers[i].port);
    }
    snprintf(args + strlen(args), sizeof(args) - strlen(args),
             " --cluster-replicas 1 --cluster-yes");
    fleet_cli(args);
    for (int i = 0; i < FLEET_CLUSTER; i++)
        fleet_wait_cluster(&servers[i]);
}

void fleet_start_cluster(struct fleet_server servers[FLEET_CLUSTER])
{
    start_cluster(servers, NULL, "");
}

void fleet_start_tls_cluster(struct fleet_server servers[FLEET_CLUSTER])
{
    char options[800], cli[300];
    const char *dir = test_dir();

    snprintf(options, sizeof(options),
             " --tls-cluster yes --tls-replication yes --tls-auth-clients no --tls-cert-file "
             "%.200s/fleet.pem --tls-ca-cert-file %.200s/fleet.pem --tls-key-file %.200s/fleet.key "
             "--tls-port",
             dir, dir, dir);
    snprintf(cli, sizeof(cli), "--tls --cacert %.200s/fleet.pem ", dir);
    if (fleet_make_certificate("fleet") == NULL)
        TEST_SKIP("no openssl to make a certificate with");
    start_cluster(servers, options, cli);
}

/* Runs an operation on the part in the middle of an object. */
static void run_part(const struct tier_shared_options *options, const struct hash256 *key,
                     void (*fn)(struct kv *kv, struct kv_op *op, uint64_t until_ns))
{
    uint64_t until_ns = clock_deadline_ns(clock_real(), 30 * NS_PER_S);
    struct kv_op op = {.verb = KV_GET};
    struct shared_io io;
    struct shared_head head;

    assert_ok(kv_open(&io.kv, &options->kv, NULL));
    shared_format_init(&io.format, &options->key, options->seal_key);
    assert_int_equal(shared_read_head(&io, key, until_ns, &head), TIER_OK);
    (void)shared_part_at(&head, head.parts / 2, &op.bytes);
    shared_part_name(&io.format, kv_prefix(io.kv), &head, head.parts / 2, op.name, sizeof(op.name));
    fn(io.kv, &op, until_ns);
    shared_head_fini(&head);
    kv_close(&io.kv);
}

static void flip_byte(struct kv *kv, struct kv_op *op, uint64_t until_ns)
{
    unsigned char *data = mem_alloc(op->bytes);

    op->dst = data;
    op->capacity = op->bytes;
    op->data = data;
    kv_run(kv, op, 1, until_ns);
    assert_int_equal(op->result, KV_OK);
    data[op->bytes / 2] ^= 0x10;
    op->verb = KV_PUT;
    kv_run(kv, op, 1, until_ns);
    assert_int_equal(op->result, KV_OK);
    mem_free(data);
}

static void delete_value(struct kv *kv, struct kv_op *op, uint64_t until_ns)
{
    op->verb = KV_DELETE;
    kv_run(kv, op, 1, until_ns);
    assert_int_equal(op->result, KV_OK);
}

void fleet_damage(const struct tier_shared_options *options, const struct hash256 *key)
{
    run_part(options, key, flip_byte);
}

void fleet_delete_part(const struct tier_shared_options *options, const struct hash256 *key)
{
    run_part(options, key, delete_value);
}

const char *fleet_breaker_line(const struct kv_options *how)
{
    static char text[1024];
    struct kv_options options = *how;
    struct kv_op op = {.verb = KV_EXISTS, .name = "name"};
    struct errinfo info = {0};
    struct kv *kv;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    struct log *log = options.log = log_create(
        &(struct log_options){.fd = ends[1], .level = LOG_LEVEL_WARN, .clock = clock_real()});
    if (kv_open(&kv, &options, &info) != ERR_OK)
        fail_msg("%s", info.text);
    while (!kv_is_down(kv))
        kv_run(kv, &op, 1, clock_deadline_ns(clock_real(), 30 * NS_PER_S));
    kv_close(&kv);
    log_destroy(&log);
    ssize_t got = read(ends[0], text, sizeof(text) - 1);
    text[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    close(ends[1]);
    return text;
}

const char *fleet_key_file(void)
{
    static char path[1024];

    snprintf(path, sizeof(path), "%s/fleet.key", test_dir());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "0123456789abcdef0123456789abcdef", 32), 32);
    close(fd);
    return path;
}
