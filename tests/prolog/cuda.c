/* A libcuda.so.1 whose kernels only take time: 10 ns a loop on one GPU, which jobs use in turns of five milliseconds:
 * longer than a busy machine takes to wake a process. The kernels `illegal` and `asserted` fail: under MPS the first of
 * them ends all clients, as on a real GPU, and both make the stand-in of its control daemon write so. A GPU has 80 GiB.
 *
 * Each process adds its pid to the file with `.cuda` behind the name of $FAKE_NVML_SCRIPT, and its MiB to the one with
 * `.cuda.memory`, which nvml.c reads. A file with `.cuda.refused` there makes clients of MPS fail with the error that it holds.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID = 1, NO_MEMORY = 2, ILLEGAL = 700, ASSERTED = 710 };

static int gpu = -1;
static long left_ns;
static int wrong;
static char illegal, asserted;

static const char *beside_script(const char *suffix) {
    static char path[4096];
    snprintf(path, sizeof path, "%s%s", getenv("FAKE_NVML_SCRIPT"), suffix);
    return path;
}

/* A file in the directory of the control daemon of this client. */
static const char *beside_control(const char *name) {
    static char path[4096];
    const char *pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
    snprintf(path, sizeof path, "%s/%s", pipes ? pipes : "/nonexistent", name);
    return path;
}

static int is_client(void) { return !access(beside_control("control"), F_OK); }

/* Fail as a kernel that did what COMMAND of mps_control.py stands for. */
static int fail(const char *command, int error) {
    FILE *torn = error == ILLEGAL && is_client() ? fopen(beside_control("torn"), "w") : NULL;
    if (torn) fclose(torn);
    FILE *control = is_client() ? fopen(beside_control("control"), "w") : NULL;
    if (control) {
        fputs(command, control);
        fclose(control);
    }
    return error;
}

int cuInit(unsigned int flags) {
    int error = SUCCESS;
    FILE *refused = is_client() ? fopen(beside_script(".cuda.refused"), "r") : NULL;
    if (refused && fscanf(refused, "%d", &error) == 1) return error;
    FILE *file = fopen(beside_script(".cuda"), "a");
    if (flags || !file) return INVALID;
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    gpu = open(beside_script(".cuda"), O_RDONLY);
    return SUCCESS;
}

int cuDeviceGet(int *into, int number) { return *into = number, SUCCESS; }

int cuDeviceGetAttribute(int *into, int attribute, int device) {
    *into = 16;
    return attribute == 16 && device == 0 ? SUCCESS : INVALID;
}

int cuDevicePrimaryCtxRetain(void **into, int device) { return *into = &gpu, device; }

int cuCtxSetCurrent(void *context) { return context == &gpu ? SUCCESS : INVALID; }

int cuModuleLoadData(void **into, const char *text) { return *into = &left_ns, *text ? SUCCESS : INVALID; }

int cuModuleGetFunction(void **into, void *module, const char *name) {
    *into = *name == 't' ? (void *)&left_ns : *name == 'i' ? &illegal : &asserted;
    return module == &left_ns && strchr("tia", *name) ? SUCCESS : INVALID;
}

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    *total = 80UL << 30;
    *free = *total - (1UL << 30);
    return SUCCESS;
}

int cuMemAlloc_v2(unsigned long long *into, size_t size) {
    *into = 4096;
    FILE *file = size > 80UL << 30 ? NULL : fopen(beside_script(".cuda.memory"), "a");
    if (file) {
        fprintf(file, "%d %zu\n", (int)getpid(), size >> 20);
        fclose(file);
    }
    return size > 80UL << 30 ? NO_MEMORY : size ? SUCCESS : INVALID;
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **more) {
    if (function == &illegal) return wrong = 1, SUCCESS;
    if (function == &asserted) return wrong = 2, SUCCESS;
    if (function != &left_ns || !x || y != 1 || z != 1 || bx != 128 || by != 1 || bz != 1 || shared || stream || more
        || *(unsigned long long *)arguments[0] != 4096)
        return INVALID;
    left_ns = 10L * *(unsigned *)arguments[1];
    return SUCCESS;
}

int cuCtxSynchronize(void) {
    if (wrong) return wrong == 1 ? fail("fault\n", ILLEGAL) : fail("reset\n", ASSERTED);
    if (is_client() && !access(beside_control("torn"), F_OK)) return ILLEGAL;
    for (; left_ns > 0; left_ns -= 5000000) {
        struct timespec turn = {0, left_ns < 5000000 ? left_ns : 5000000}, pause = {0, 50000};
        flock(gpu, LOCK_EX);
        nanosleep(&turn, NULL);
        flock(gpu, LOCK_UN);
        nanosleep(&pause, NULL);
    }
    return SUCCESS;
}
