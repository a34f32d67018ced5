/* Two programs in one.
 *
 * Under the name of a stub: says on a descriptor that it inherits that it ran. Not by an argument or
 * a variable, since those are what the commands under test play with.
 *
 * As `runner SCRATCH PATH BASH`: reads commands from its input, each behind a line with its length,
 * runs each by `bash -c` in SCRATCH, and answers with a line when everything that the command started
 * has ended: `ran` and the names of the stubs, or `slow` if it had to be ended.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORD = 200, SECONDS = 3 };

static volatile sig_atomic_t late;
static void on_alarm(int signal) {
  (void)signal;
  late = 1;
}

static int stub(const char *name, size_t length) {
  char line[64];
  if (length + 1 > sizeof line) return 1;
  memcpy(line, name, length);
  line[length] = ' ';
  return write(RECORD, line, length + 1) < 0;
}

/* Ends every process whose parent we are; what they started comes to us next. */
static void end_children(void) {
  DIR *processes = opendir("/proc");
  if (!processes) return;
  for (struct dirent *entry; (entry = readdir(processes));) {
    char path[300], line[512];
    int process = atoi(entry->d_name), parent = 0;
    if (process <= 0) continue;
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *stat = fopen(path, "r");
    if (!stat) continue;
    char *behind = fgets(line, sizeof line, stat) ? strrchr(line, ')') : NULL;
    fclose(stat);
    if (behind && sscanf(behind, ") %*c %d", &parent) == 1 && parent == getpid()) kill(process, SIGKILL);
  }
  closedir(processes);
}

static void be_bash(char **argv, char *command, int record) {
  int nothing = open("/dev/null", O_RDWR);
  for (int descriptor = 0; descriptor < 3; descriptor++) dup2(nothing, descriptor);
  dup2(record, RECORD);
  close(nothing);
  setsid();
  struct rlimit seconds = {SECONDS, SECONDS}, size = {1 << 20, 1 << 20};
  setrlimit(RLIMIT_CPU, &seconds);
  setrlimit(RLIMIT_FSIZE, &size);
  char path[4096], home[4096];
  snprintf(path, sizeof path, "PATH=%s", argv[2]);
  snprintf(home, sizeof home, "HOME=%s", argv[1]);
  char *environment[] = {path, home, NULL};
  char *arguments[] = {"bash", "-c", command, NULL};
  if (chdir(argv[1]) == 0) execve(argv[3], arguments, environment);
  _exit(126);
}

static void run(char **argv, char *command) {
  int record[2];
  if (pipe2(record, O_CLOEXEC | O_NONBLOCK) != 0) exit(3);
  pid_t child = fork();
  if (child == 0) be_bash(argv, command, record[1]);
  if (child < 0) exit(3);
  close(record[1]);
  late = 0;
  /* It goes off again and again: a child may appear while others are being ended. */
  struct itimerval timer = {{0, 50000}, {SECONDS, 0}}, off = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &timer, NULL);
  while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
    if (late) end_children();
  setitimer(ITIMER_REAL, &off, NULL);
  char names[1 << 16];
  ssize_t length = late ? 0 : read(record[0], names, sizeof names);
  close(record[0]);
  printf("%s %.*s\n", late ? "slow" : "ran", length > 0 ? (int)length : 0, names);
  fflush(stdout);
}

int main(int argc, char **argv) {
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length < 0) return 1;
  self[length] = 0;
  char *name = strrchr(self, '/') + 1;
  if (strcmp(name, "runner") != 0) return stub(name, strlen(name));
  if (argc != 4) return 2;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct sigaction action = {.sa_handler = on_alarm};
  sigaction(SIGALRM, &action, NULL);
  size_t count;
  while (scanf("%zu", &count) == 1 && getchar() == '\n') {
    char *command = calloc(count + 1, 1);
    if (!command || fread(command, 1, count, stdin) != count) return 3;
    run(argv, command);
    free(command);
  }
  return 0;
}
