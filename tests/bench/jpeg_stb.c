/* jpeg_stb.c - a decoder alone, on JPEG files that lie in memory: what tests/bench/jpeg.c is compared with
 *
 *   gcc -std=gnu11 -O2 tests/bench/jpeg_stb.c -o jpeg_stb -lm -lpthread && ./jpeg_stb <folder of class folders> 1 3.0
 *   gcc -std=gnu11 -O2 -DTP_JPEG tests/bench/jpeg_stb.c -o jpeg_turbo -ljpeg -lm -lpthread      libjpeg-turbo in place of stb_image
 *
 * arguments: folder, threads, seconds, and "read" if the files are to be read each time, as by the pipelines. Each thread decodes
 * its share of the files, again and again. One JSON line; cpu_us is processor time for each image. */
#define _GNU_SOURCE
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
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef TP_JPEG
#include <jpeglib.h>
#define DECODER "libjpeg"
/* One decoder for each thread, as the library recommends. */
static void decode_one(const unsigned char *data, int size)
{
    static __thread struct jpeg_decompress_struct c;
    static __thread struct jpeg_error_mgr e;
    if (!c.err) {
        c.err = jpeg_std_error(&e);
        jpeg_create_decompress(&c);
    }
    jpeg_mem_src(&c, data, (unsigned long)size);
    jpeg_read_header(&c, TRUE);
    c.out_color_space = JCS_RGB;
    jpeg_start_decompress(&c);
    unsigned char *pixels = (unsigned char *)malloc((size_t)c.output_width * c.output_height * 3);
    while (c.output_scanline < c.output_height) {
        JSAMPROW row = pixels + (size_t)c.output_scanline * c.output_width * 3;
        jpeg_read_scanlines(&c, &row, 1);
    }
    jpeg_finish_decompress(&c);
    free(pixels);
}
#else
#define DECODER "stb_image"
static void decode_one(const unsigned char *data, int size)
{
    int w, h, channels;
    free(stbi_load_from_memory(data, size, &w, &h, &channels, 3));
}
#endif

enum { MOST = 100000 };
static struct {
    unsigned char *data;
    int size;
    char *path;
} file[MOST];
static int n_file, n_thread, reads;
static double seconds;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double processor(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
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
        file[n_file].path = strdup(path);
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

/* File i into memory that is there already. */
static void read_again(int i, unsigned char *to)
{
    struct stat is;
    const int fd = open(file[i].path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &is) != 0 || read(fd, to, (size_t)file[i].size) != file[i].size) exit(1);
    close(fd);
}

static void *decode(void *user)
{
    unsigned char *again = (unsigned char *)malloc(1 << 20);
    const int first = *(const int *)user;
    static long done[64];
    long n = 0;
    for (const double start = now(); now() - start < seconds;)
        for (int k = 0, i = (int)(n * n_thread + first) % n_file; k < 64; k++, n++, i = (i + n_thread) % n_file) {
            if (reads) read_again(i, again);
            decode_one(reads ? again : file[i].data, file[i].size);
        }
    free(again);
    done[first] = n;
    return &done[first];
}

int main(int argc, char **argv)
{
    if (argc < 4) return fprintf(stderr, "usage: jpeg_stb <folder of class folders> <threads> <seconds>\n"), 2;
    n_thread = atoi(argv[2]);
    seconds = atof(argv[3]);
    reads = argc > 4 && strcmp(argv[4], "read") == 0;
    read_folder(argv[1], 0);
    if (n_file == 0 || n_thread < 1 || n_thread > 64) return fprintf(stderr, "no files, or no threads\n"), 2;
    pthread_t thread[64];
    int number[64];
    long total = 0;
    for (int i = 0; i < n_thread; i++) number[i] = i;
    const double start = now(), busy = processor();
    for (int i = 0; i < n_thread; i++) pthread_create(&thread[i], NULL, decode, &number[i]);
    for (int i = 0; i < n_thread; i++) {
        void *n = NULL;
        pthread_join(thread[i], &n);
        total += *(long *)n;
    }
    printf("{\"pipeline\": \"" DECODER ", %s\", \"workers\": %d, \"images_per_s\": %.0f, \"cpu_us\": %.2f}\n",
           reads ? "read and decoded" : "decoded", n_thread, (double)total / (now() - start),
           (processor() - busy) / (double)total * 1e6);
    return 0;
}
