#include "coracle.h"

#include <stdio.h>

int main(void)
{
    return printf("libcoracle %s\n", coracle_version_string()) > 0 ? 0 : 1;
}
