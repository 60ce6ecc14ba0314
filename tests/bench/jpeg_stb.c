/* jpeg_stb.c - stb_image's decoder alone, on JPEG files that lie in memory: what tests/bench/jpeg.c is compared with
 *
 *   gcc -std=gnu11 -O2 tests/bench/jpeg_stb.c -o jpeg_stb -lm -lpthread && ./jpeg_stb <folder of class folders> 1 3.0
 *
 * arguments: folder, threads, seconds. Each thread decodes its share of the files, again and again. One JSON line. */
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#include <stb/stb_image.h>
#include <dirent.h>
#include <pthread.h>
#include <time.h>

enum { MOST = 100000 };
static struct {
    unsigned char *data;
    int size;
} file[MOST];
static int n_file, n_thread;
static double seconds;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return;
    unsigned char *data = (unsigned char *)malloc(1 << 20);
    const size_t n = data ? fread(data, 1, 1 << 20, f) : 0;
    fclose(f);
    if (n && n_file < MOST) {
        file[n_file].data = (unsigned char *)realloc(data, n);
        file[n_file++].size = (int)n;
    } else {
        free(data);
    }
}

static void read_folder(const char *folder, int depth)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[4096];
        if (e->d_name[0] == '.' || snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path)
            continue;
        if (depth == 0) read_folder(path, 1);
        else read_file(path);
    }
    if (d) closedir(d);
}

static void *decode(void *user)
{
    const int first = *(const int *)user;
    static long done[64];
    long n = 0;
    for (const double start = now(); now() - start < seconds;)
        for (int k = 0, i = (int)(n * n_thread + first) % n_file; k < 64; k++, n++, i = (i + n_thread) % n_file) {
            int w, h, channels;
            free(stbi_load_from_memory(file[i].data, file[i].size, &w, &h, &channels, 3));
        }
    done[first] = n;
    return &done[first];
}

int main(int argc, char **argv)
{
    if (argc < 4) return fprintf(stderr, "usage: jpeg_stb <folder of class folders> <threads> <seconds>\n"), 2;
    n_thread = atoi(argv[2]);
    seconds = atof(argv[3]);
    read_folder(argv[1], 0);
    if (n_file == 0 || n_thread < 1 || n_thread > 64) return fprintf(stderr, "no files, or no threads\n"), 2;
    pthread_t thread[64];
    int number[64];
    long total = 0;
    for (int i = 0; i < n_thread; i++) number[i] = i;
    const double start = now();
    for (int i = 0; i < n_thread; i++) pthread_create(&thread[i], NULL, decode, &number[i]);
    for (int i = 0; i < n_thread; i++) {
        void *n = NULL;
        pthread_join(thread[i], &n);
        total += *(long *)n;
    }
    printf("{\"pipeline\": \"stb_image, decoding alone\", \"workers\": %d, \"images_per_s\": %.1f}\n", n_thread,
           (double)total / (now() - start));
    return 0;
}
