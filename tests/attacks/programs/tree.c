/* tree deep DIR N: makes N directories in one another below DIR.
   tree freeze PATH...: makes each immutable. Both answer 0 when all is done. */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int count, char **word) {
    if (count == 4 && !strcmp(word[1], "deep")) {
        if (chdir(word[2])) return 1;
        for (int left = atoi(word[3]); left > 0; left--)
            if (mkdir("d", 0777) || chdir("d")) return 2;
        return 0;
    }
    if (count < 3 || strcmp(word[1], "freeze")) return 3;
    for (int at = 2; at < count; at++) {
        int flags = FS_IMMUTABLE_FL, fd = open(word[at], O_RDONLY);
        if (fd < 0 || ioctl(fd, FS_IOC_SETFLAGS, &flags)) return 4;
    }
    return 0;
}
