/* A libnvidia-ml.so.1 that says what a script tells it to, so that the real pynvml can be run without a GPU.
 *
 * $FAKE_NVML_SCRIPT names a file of lines `FROM GPU CALL ANSWER`; the last line that fits GPU and CALL, and whose
 * FROM is reached, counts: seconds since nvmlInit, or #N calls of that kind to that GPU. ANSWER is a number, `A/B` for two, `error:CODE`, or `hang:SECONDS`.
 *   0 * gpus 2          two GPUs
 *   0 0 util 40/10      GPU and memory controller, %; `cuda:40/10` while a process of cuda.c runs, else 0
 *   0 0 memory 4096     MiB used of 81920; `cuda:4096` and those of processes of cuda.c
 *   0 0 power 250       W; `limit` is the power limit
 *   0 0 processes 1     or 1/PID for one with this pid
 *   0 0 clients 2       those that use it through MPS; or `cuda` for the ones of cuda.c that run now
 *   0 0 graphics 1      those that draw with it
 *   0 0 loads cuda      those whose own load it knows
 *   0 0 mode 3          compute mode
 *   0 0 minor 3         the number of its device file; else its index
 *   0 0 mig 1           cut into slices
 *   0 0 link1 3         its NVLink 1 leads to GPU 3; `link1 99` to a switch
 *   0 0 affinity 3      the CPUs beside it, one bit each
 *   5 1 util error:15   lost after five seconds
 *   #5 1 util error:15  lost after it was asked for its load five times
 * nvmlInit leaves a file with `.began` behind the script's name; each question to a GPU adds a byte to the one with
 * `.asked.JOB.NODE`, by Slurm's variables.
 * A UUID is GPU-N or MIG-N for the GPU with index N. What no line tells is not supported.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, LINES = 256, GPUS = 64, COUNTERS = 512 };

struct line { double from; char unit; int gpu; char call[16]; char kind; double a, b; };
struct counter { int gpu; char call[16]; double count; };
struct gpu { int index; };
struct memory { unsigned long long total, free, used; };
struct pci { char legacy[16]; unsigned int domain, bus, device, id, subsystem; char bus_id[32]; };
struct utilization { unsigned int gpu, memory; };
struct process { unsigned int pid; unsigned long long used; unsigned int gi, ci; };
struct load { unsigned int pid; unsigned long long at; unsigned int gpu, memory, encoder, decoder; };

static struct line lines[LINES];
static int count;
static struct gpu gpus[GPUS];
static struct counter counters[COUNTERS];
static struct timespec began;

static double elapsed_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began.tv_sec) + (double)(now.tv_nsec - began.tv_nsec) * 1e-9;
}

static void read_script(void) {
    const char *path = getenv("FAKE_NVML_SCRIPT");
    FILE *file = path ? fopen(path, "r") : NULL;
    char from[32], gpu[16], answer[64];
    count = 0;
    while (file && count < LINES) {
        struct line *at = &lines[count];
        if (fscanf(file, "%31s %15s %15s %63s", from, gpu, at->call, answer) != 4) break;
        at->unit = *from == '#' ? '#' : 's';
        at->from = atof(from + (*from == '#'));
        at->gpu = *gpu == '*' ? -1 : atoi(gpu);
        at->kind = strchr("ehc", *answer) ? *answer : ' ';
        char *colon = strchr(answer, ':');
        sscanf(colon ? colon + 1 : answer, "%lf/%lf", &at->a, &at->b);
        count++;
    }
    if (file) fclose(file);
}

static void tell_begin(void) {
    char path[4096];
    const char *script = getenv("FAKE_NVML_SCRIPT");
    if (!script) return;
    snprintf(path, sizeof path, "%s.began", script);
    FILE *file = fopen(path, "w");
    if (file) fclose(file);
}

static void tell_question(void) {
    char path[4096];
    const char *script = getenv("FAKE_NVML_SCRIPT"), *job = getenv("SLURM_JOB_ID"), *node = getenv("SLURMD_NODENAME");
    if (!script || !job || !node) return;
    snprintf(path, sizeof path, "%s.asked.%s.%s", script, job, node);
    FILE *file = fopen(path, "a");
    if (!file) return;
    fputc('.', file);
    fclose(file);
}

/* How often CALL was made of GPU before; counts this time. */
static double earlier(int gpu, const char *call) {
    for (struct counter *at = counters; at < counters + COUNTERS; at++) {
        if (!*at->call) {
            at->gpu = gpu;
            strncpy(at->call, call, sizeof at->call - 1);
        }
        if (at->gpu == gpu && !strcmp(at->call, call)) return at->count++;
    }
    return 0;
}

/* Whether CALL of GPU has an answer now, which *found then holds; else the NVML error to return. */
static int look(int gpu, const char *call, struct line **found) {
    double now_s = elapsed_s(), calls = earlier(gpu, call);
    *found = NULL;
    if (gpu >= 0) tell_question();
    for (int i = 0; i < count; i++)
        if ((lines[i].gpu == gpu || lines[i].gpu == -1) && lines[i].from <= (lines[i].unit == '#' ? calls : now_s)
            && !strcmp(lines[i].call, call))
            *found = &lines[i];
    if (!*found) return NOT_SUPPORTED;
    if ((*found)->kind == 'h') {
        struct timespec pause = {(time_t)(*found)->a, 0};
        nanosleep(&pause, NULL);
        return SUCCESS;
    }
    return (*found)->kind == 'e' ? (int)(*found)->a : SUCCESS;
}

/* The processes that cuda.c noted and that run now. */
static unsigned int cuda_processes(unsigned int *pids) {
    char path[4096];
    unsigned int found = 0, pid;
    snprintf(path, sizeof path, "%s.cuda", getenv("FAKE_NVML_SCRIPT"));
    FILE *file = fopen(path, "r");
    while (file && found < GPUS && fscanf(file, "%u", &pid) == 1)
        if (!kill((pid_t)pid, 0) || errno == EPERM) pids[found++] = pid;
    if (file) fclose(file);
    return found;
}

/* The MiB that processes of cuda.c noted which run now. */
static unsigned long long cuda_mib(void) {
    char path[4096];
    unsigned long long sum = 0, mib;
    unsigned int pid;
    snprintf(path, sizeof path, "%s.cuda.memory", getenv("FAKE_NVML_SCRIPT"));
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%u %llu", &pid, &mib) == 2)
        if (!kill((pid_t)pid, 0) || errno == EPERM) sum += mib;
    if (file) fclose(file);
    return sum;
}

#define ASK(gpu, call) \
    struct line *said; \
    int trouble = look(gpu, call, &said); \
    if (trouble) return trouble

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    clock_gettime(CLOCK_MONOTONIC, &began);
    read_script();
    tell_begin();
    for (int i = 0; i < GPUS; i++) gpus[i].index = i;
    struct line *said;
    int trouble = look(-1, "init", &said);
    return trouble == NOT_SUPPORTED ? SUCCESS : trouble;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

const char *nvmlErrorString(int error) {
    (void)error;
    return "an error of the script";
}

int nvmlDeviceGetCount_v2(unsigned int *into) {
    ASK(-1, "gpus");
    *into = (unsigned int)said->a;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct gpu **into) {
    if (index >= GPUS) return INVALID;
    *into = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct gpu **into) {
    return nvmlDeviceGetHandleByIndex_v2((unsigned int)atoi(uuid + 4), into);
}

int nvmlDeviceGetMinorNumber(struct gpu *gpu, unsigned int *into) {
    ASK(gpu->index, "minor");
    *into = (unsigned int)said->a;
    return SUCCESS;
}

static int tell_bus(int number, struct pci *into) {
    memset(into, 0, sizeof *into);
    into->bus = (unsigned int)number;
    snprintf(into->bus_id, sizeof into->bus_id, "00000000:%02X:00.0", number);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(struct gpu *gpu, struct pci *into) { return tell_bus(gpu->index, into); }

/* Where LINK of a GPU leads; no question to the GPU is counted, since nothing about its load is asked. */
static int far_end(struct gpu *gpu, unsigned int link, int *into) {
    char call[16];
    snprintf(call, sizeof call, "link%u", link);
    for (int i = 0; i < count; i++)
        if ((lines[i].gpu == gpu->index || lines[i].gpu == -1) && !strcmp(lines[i].call, call)) {
            *into = (int)lines[i].a;
            return SUCCESS;
        }
    return NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkState(struct gpu *gpu, unsigned int link, unsigned int *into) {
    int other, trouble = far_end(gpu, link, &other);
    *into = !trouble;
    return trouble;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct gpu *gpu, unsigned int link, struct pci *into) {
    int other, trouble = far_end(gpu, link, &other);
    return trouble ? trouble : tell_bus(other, into);
}

int nvmlDeviceGetCpuAffinity(struct gpu *gpu, unsigned int words, unsigned long *into) {
    ASK(gpu->index, "affinity");
    memset(into, 0, words * sizeof *into);
    into[0] = (unsigned long)said->a;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(struct gpu *gpu, unsigned int *now, unsigned int *next) {
    ASK(gpu->index, "mig");
    *now = *next = (unsigned int)said->a;
    return SUCCESS;
}

int nvmlDeviceGetUUID(struct gpu *gpu, char *into, unsigned int length) {
    snprintf(into, length, "GPU-%d", gpu->index);
    return SUCCESS;
}

int nvmlDeviceGetName(struct gpu *gpu, char *into, unsigned int length) {
    (void)gpu;
    snprintf(into, length, "Scripted");
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(struct gpu *gpu, struct utilization *into) {
    unsigned int pids[GPUS];
    ASK(gpu->index, "util");
    int works = said->kind != 'c' || cuda_processes(pids);
    into->gpu = works ? (unsigned int)said->a : 0;
    into->memory = works ? (unsigned int)said->b : 0;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(struct gpu *gpu, struct memory *into) {
    ASK(gpu->index, "memory");
    into->total = 81920ULL << 20;
    into->used = ((unsigned long long)said->a + (said->kind == 'c' ? cuda_mib() : 0)) << 20;
    into->free = into->total - into->used;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(struct gpu *gpu, unsigned int *into) {
    ASK(gpu->index, "power");
    *into = (unsigned int)(said->a * 1000);
    return SUCCESS;
}

int nvmlDeviceGetEnforcedPowerLimit(struct gpu *gpu, unsigned int *into) {
    ASK(gpu->index, "limit");
    *into = (unsigned int)(said->a * 1000);
    return SUCCESS;
}

/* The pids of an answer to CALL about a GPU. */
static int look_for_pids(struct gpu *gpu, const char *call, unsigned int *pids, unsigned int *found) {
    ASK(gpu->index, call);
    if (said->kind == 'c') {
        *found = cuda_processes(pids);
        return SUCCESS;
    }
    *found = (unsigned int)said->a;
    for (unsigned int i = 0; i < *found; i++) pids[i] = (said->b ? (unsigned int)said->b : 1000) + i;
    return SUCCESS;
}

static int list(struct gpu *gpu, const char *call, unsigned int *length, struct process *into) {
    unsigned int pids[GPUS], running = 0;
    int trouble = look_for_pids(gpu, call, pids, &running);
    if (trouble) return trouble;
    if (running > *length) {
        *length = running;
        return TOO_SMALL;
    }
    for (unsigned int i = 0; i < running; i++) into[i] = (struct process){pids[i], 1 << 20, 0, 0};
    *length = running;
    return SUCCESS;
}

int nvmlDeviceGetProcessUtilization(struct gpu *gpu, struct load *into, unsigned int *length, unsigned long long since) {
    unsigned int pids[GPUS], running = 0;
    (void)since;
    int trouble = look_for_pids(gpu, "loads", pids, &running);
    if (trouble) return trouble;
    if (running > *length || !into) {
        *length = running;
        return TOO_SMALL;
    }
    for (unsigned int i = 0; i < running; i++) into[i] = (struct load){pids[i], 0, 30, 10, 0, 0};
    *length = running;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct gpu *gpu, unsigned int *length, struct process *into) {
    return list(gpu, "processes", length, into);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct gpu *gpu, unsigned int *length, struct process *into) {
    return list(gpu, "clients", length, into);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(struct gpu *gpu, unsigned int *length, struct process *into) {
    return list(gpu, "graphics", length, into);
}

int nvmlDeviceGetComputeMode(struct gpu *gpu, unsigned int *into) {
    ASK(gpu->index, "mode");
    *into = (unsigned int)said->a;
    return SUCCESS;
}

int nvmlDeviceGetIndex(struct gpu *gpu, unsigned int *into) {
    *into = (unsigned int)gpu->index;
    return SUCCESS;
}

int nvmlSystemGetNVMLVersion(char *into, unsigned int length) {
    snprintf(into, length, "12.scripted");
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *into, unsigned int length) {
    snprintf(into, length, "scripted");
    return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion(int *into) {
    *into = 12040;
    return SUCCESS;
}
