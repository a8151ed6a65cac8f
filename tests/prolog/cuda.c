/* A libcuda.so.1 whose kernels only take time: 10 ns a loop on one GPU, which jobs use in turns of five milliseconds:
 * longer than a busy machine takes to wake a process.
 *
 * Each process adds its pid to the file with `.cuda` behind the name of $FAKE_NVML_SCRIPT, which nvml.c reads. A file with
 * `.cuda.refused` there makes clients of MPS fail with the error that it holds.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID = 1 };

static int gpu = -1;
static long left_ns;

static const char *beside_script(const char *suffix) {
    static char path[4096];
    snprintf(path, sizeof path, "%s%s", getenv("FAKE_NVML_SCRIPT"), suffix);
    return path;
}

static int is_client(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/control", getenv("CUDA_MPS_PIPE_DIRECTORY"));
    return !access(path, F_OK);
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
    return *into = module, module == &left_ns && *name == 't' ? SUCCESS : INVALID;
}

int cuMemAlloc_v2(unsigned long long *into, size_t size) { return *into = 4096, size ? SUCCESS : INVALID; }

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **more) {
    if (function != &left_ns || !x || y != 1 || z != 1 || bx != 128 || by != 1 || bz != 1 || shared || stream || more
        || *(unsigned long long *)arguments[0] != 4096)
        return INVALID;
    left_ns = 10L * *(unsigned *)arguments[1];
    return SUCCESS;
}

int cuCtxSynchronize(void) {
    for (; left_ns > 0; left_ns -= 5000000) {
        struct timespec turn = {0, left_ns < 5000000 ? left_ns : 5000000}, pause = {0, 50000};
        flock(gpu, LOCK_EX);
        nanosleep(&turn, NULL);
        flock(gpu, LOCK_UN);
        nanosleep(&pause, NULL);
    }
    return SUCCESS;
}
