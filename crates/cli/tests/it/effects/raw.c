/* System calls that no ordinary tool makes, each of them an attempt to change a file: raw OPERATION FILE PLACE */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *file;
static char other[4096], text[] = "EVIL\n";
static char shared[] = "tame\n";

static int is(const char *given, const char *name) { return strcmp(given, name) == 0; }

static int spill(int fd) { return fd < 0 || write(fd, text, 5) != 5; }

/* Another file, in a place of our own. */
static int made(int flags) {
  int fd = open(other, flags | O_CREAT, 0644);
  if (fd >= 0 && write(fd, text, 5) == 5) lseek(fd, 0, SEEK_SET);
  return fd;
}

static int send_fd(int socket, int fd) {
  char byte = 0, room[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(head), &fd, sizeof fd);
  return sendmsg(socket, &message, 0) != 1;
}

static int receive_fd(int socket) {
  char byte, room[CMSG_SPACE(sizeof(int))];
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  int fd = -1;
  if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message))
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  return fd;
}

/* A ring with one entry: opens the file, then writes to it. */
static int ring(void) {
  struct io_uring_params wanted = {0};
  int fd = syscall(SYS_io_uring_setup, 2, &wanted);
  if (fd < 0) return 1;
  size_t size = wanted.sq_off.array + wanted.sq_entries * 4, done = wanted.cq_off.cqes + wanted.cq_entries * sizeof(struct io_uring_cqe);
  char *sq = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQ_RING);
  char *cq = mmap(0, done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_CQ_RING);
  struct io_uring_sqe *entries = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQES);
  if (sq == MAP_FAILED || cq == MAP_FAILED || entries == MAP_FAILED) return 1;
  int opened = -1;
  for (int step = 0; step < 2; step++) {
    struct io_uring_sqe *entry = &entries[step];
    memset(entry, 0, sizeof *entry);
    if (step == 0) {
      entry->opcode = IORING_OP_OPENAT, entry->fd = AT_FDCWD, entry->addr = (unsigned long)file;
      entry->open_flags = O_WRONLY | O_TRUNC;
    } else {
      entry->opcode = IORING_OP_WRITE, entry->fd = opened, entry->addr = (unsigned long)text, entry->len = 5;
    }
    unsigned *tail = (unsigned *)(sq + wanted.sq_off.tail), mask = *(unsigned *)(sq + wanted.sq_off.ring_mask);
    ((unsigned *)(sq + wanted.sq_off.array))[*tail & mask] = step;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, fd, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) < 1) return 1;
    unsigned *head = (unsigned *)(cq + wanted.cq_off.head), over = *(unsigned *)(cq + wanted.cq_off.ring_mask);
    struct io_uring_cqe *answer = (struct io_uring_cqe *)(cq + wanted.cq_off.cqes) + (*head & over);
    opened = answer->res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    if (opened < 0) return 1;
  }
  return 0;
}

/* A child that writes what stands in its memory, which its parent has changed. */
static int changed_child(int traced) {
  int ready[2];
  if (pipe(ready)) return 1;
  pid_t child = fork();
  if (child == 0) {
    char byte;
    if (traced) ptrace(PTRACE_TRACEME, 0, 0, 0), raise(SIGSTOP);
    else if (read(ready[0], &byte, 1) != 1) _exit(1);
    int fd = open(file, O_WRONLY);
    _exit(strcmp(shared, text) != 0 || fd < 0 || write(fd, shared, 5) != 5);
  }
  int status = 0;
  if (traced) {
    waitpid(child, &status, 0);
    long word;
    memcpy(&word, text, 4);
    long old = ptrace(PTRACE_PEEKDATA, child, shared, 0);
    memcpy(&old, &word, 4);
    ptrace(PTRACE_POKEDATA, child, shared, (void *)old);
    ptrace(PTRACE_CONT, child, 0, 0);
  } else {
    struct iovec mine = {text, 5}, theirs = {shared, 5};
    if (process_vm_writev(child, &mine, 1, &theirs, 1, 0) < 0) perror("process_vm_writev");
    if (write(ready[1], "x", 1) != 1) return 1;
  }
  waitpid(child, &status, 0);
  return status != 0;
}

static int attempt(const char *way) {
  struct open_how how = {.flags = O_WRONLY | O_TRUNC};
  char link[64];
  int fd, pair[2];
  if (is(way, "open")) return spill(open(file, O_WRONLY | O_TRUNC));
  if (is(way, "creat")) return spill(creat(file, 0644));
  if (is(way, "append")) return spill(open(file, O_WRONLY | O_APPEND));
  if (is(way, "openat2")) return spill(syscall(SYS_openat2, AT_FDCWD, file, &how, sizeof how));
  if (is(way, "openat2-link")) {
    how.flags = O_RDWR, how.resolve = RESOLVE_NO_XDEV;
    fd = syscall(SYS_openat2, AT_FDCWD, file, &how, sizeof how);
    return spill(fd < 0 ? open(file, O_RDWR) : fd);
  }
  if (is(way, "reopen")) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", open(file, O_PATH));
    return spill(open(link, O_WRONLY | O_TRUNC));
  }
  if (is(way, "truncate")) return truncate(file, 1);
  if (is(way, "ftruncate")) return ftruncate(open(file, O_RDWR), 1);
  if (is(way, "mmap")) {
    char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(file, O_RDWR), 0);
    return page == MAP_FAILED ? 1 : (memcpy(page, text, 1), msync(page, 4096, MS_SYNC));
  }
  if (is(way, "mmap-protect")) {
    char *page = mmap(0, 4096, PROT_READ, MAP_SHARED, open(file, O_RDWR), 0);
    if (page == MAP_FAILED || mprotect(page, 4096, PROT_READ | PROT_WRITE)) return 1;
    return memcpy(page, text, 1), msync(page, 4096, MS_SYNC);
  }
  if (is(way, "pwritev")) {
    struct iovec part = {text, 5};
    return pwritev2(open(file, O_WRONLY), &part, 1, 0, 0) != 5;
  }
  if (is(way, "rename")) return made(O_RDWR) < 0 || rename(other, file);
  if (is(way, "exchange")) return made(O_RDWR) < 0 || syscall(SYS_renameat2, AT_FDCWD, other, AT_FDCWD, file, 2);
  if (is(way, "rename-away")) return syscall(SYS_renameat2, AT_FDCWD, file, AT_FDCWD, other, 1);
  if (is(way, "unlinkat")) return unlinkat(AT_FDCWD, file, 0);
  if (is(way, "unlink-fd")) {
    char *slash = strrchr(file, '/');
    if (!slash) return unlinkat(open(".", O_PATH), file, 0);
    char *directory = strndup(file, slash - file);
    return unlinkat(open(directory, O_PATH | O_DIRECTORY), slash + 1, 0);
  }
  if (is(way, "link")) return made(O_RDWR) < 0 || unlink(file) || linkat(AT_FDCWD, other, AT_FDCWD, file, 0);
  if (is(way, "link-fd")) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", made(O_RDWR));
    return unlink(file) || linkat(AT_FDCWD, link, AT_FDCWD, file, AT_SYMLINK_FOLLOW);
  }
  if (is(way, "link-out")) return linkat(AT_FDCWD, file, AT_FDCWD, other, 0) || spill(open(other, O_WRONLY | O_TRUNC));
  if (is(way, "symlink")) return unlink(file) || symlink("/dev/null", file);
  if (is(way, "copy-range")) return copy_file_range(made(O_RDWR), 0, open(file, O_WRONLY), 0, 5, 0) != 5;
  if (is(way, "sendfile")) return sendfile(open(file, O_WRONLY), made(O_RDWR), 0, 5) != 5;
  if (is(way, "splice")) {
    if (pipe(pair) || write(pair[1], text, 5) != 5) return 1;
    return splice(pair[0], 0, open(file, O_WRONLY), 0, 5, 0) != 5;
  }
  if (is(way, "vmsplice")) {
    struct iovec part = {text, 5};
    if (pipe(pair) || vmsplice(pair[1], &part, 1, 0) != 5) return 1;
    return splice(pair[0], 0, open(file, O_WRONLY), 0, 5, 0) != 5;
  }
  if (is(way, "fallocate")) return fallocate(open(file, O_RDWR), 0, 0, 9000);
  if (is(way, "punch")) return fallocate(open(file, O_RDWR), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1);
  if (is(way, "fchmod")) return fchmod(open(file, O_RDONLY), 0777);
  if (is(way, "fchmodat")) return fchmodat(AT_FDCWD, file, 0700, 0);
  if (is(way, "ring")) return ring();
  if (is(way, "ptrace")) return changed_child(1);
  if (is(way, "vm-write")) return changed_child(0);
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
  if (is(way, "pass-fd")) {
    if (fork() == 0) _exit(send_fd(pair[1], open(file, O_WRONLY | O_TRUNC)));
    return spill(receive_fd(pair[0]));
  }
  if (is(way, "pass-read-fd")) {
    if (fork() == 0) _exit(send_fd(pair[1], open(file, O_RDONLY)));
    snprintf(link, sizeof link, "/proc/self/fd/%d", receive_fd(pair[0]));
    return spill(open(link, O_WRONLY | O_TRUNC));
  }
  if (is(way, "pidfd")) {
    pid_t child = fork();
    if (child == 0) {
      dup2(open(file, O_WRONLY | O_TRUNC), 99);
      if (write(pair[1], "x", 1) != 1) _exit(1);
      pause();
    }
    char byte;
    if (read(pair[0], &byte, 1) != 1) return 1;
    int failed = spill(syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, child, 0), 99, 0));
    kill(child, SIGKILL);
    return failed;
  }
  if (is(way, "inherit")) {
    dup2(open(file, O_WRONLY | O_TRUNC), 8);
    return execlp("sh", "sh", "-c", "echo EVIL >&8", (char *)0);
  }
  fprintf(stderr, "unknown: %s\n", way);
  return 2;
}

int main(int count, char **words) {
  if (count != 4) return 2;
  file = words[2];
  snprintf(other, sizeof other, "%s/other", words[3]);
  int failed = attempt(words[1]);
  if (failed) fprintf(stderr, "%s: %s\n", words[1], strerror(errno));
  return failed;
}
