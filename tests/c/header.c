/* The header alone, twice: compiled as C99 and as C++ with every warning an error. */
#include "coracle.h"
#include "coracle.h"

int main(void) {
  coracle_open_options options = CORACLE_OPEN_OPTIONS_INIT;
  coracle_io io = CORACLE_IO_INIT;
  coracle_frame frame = CORACLE_FRAME_INIT;
  coracle_status worst = CORACLE_ENOT_ACCEPTABLE;
  return options.size == sizeof options && io.fd_in == -1 && frame.len == 0 && 1 -worst == 7019 ? 0 : 1;
}
