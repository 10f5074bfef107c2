/* The header alone, twice: compiled as C99 and as C++ with every warning an error. */
#include "coracle.h"
#include "coracle.h"

#if !CORACLE_VERSION_AT_LEAST(0, 1, 0) || CORACLE_VERSION_AT_LEAST(CORACLE_VERSION_MAJOR + 1, 0, 0)
#error "the version macros"
#endif

/* The layouts of the structs: they may only grow at their ends. */
#define IS(name, fact) typedef char name[(fact) ? 1 : -1]
#define AT(type, member, offset) IS(type##_##member, offsetof(type, member) == (offset))
AT(coracle_open_options, run_dir, 8);
AT(coracle_open_options, config_json, 16);
AT(coracle_open_options, flags, 24);
IS(open_options_size, sizeof(coracle_open_options) == 32);
AT(coracle_io, flags, 8);
AT(coracle_io, fd_in, 16);
AT(coracle_io, fd_out, 20);
AT(coracle_io, fd_err, 24);
AT(coracle_io, rows, 28);
AT(coracle_io, cols, 30);
IS(io_size, sizeof(coracle_io) == 32);
AT(coracle_frame, channel, 8);
AT(coracle_frame, time_ns, 16);
AT(coracle_frame, data, 24);
AT(coracle_frame, len, 32);
IS(frame_size, sizeof(coracle_frame) == 40);
AT(coracle_result, code, 8);
AT(coracle_result, id, 16);
AT(coracle_result, json, 24);
AT(coracle_result, session, 32);
AT(coracle_result, stream, 40);
IS(result_size, sizeof(coracle_result) == 48);

int main(void) {
  coracle_open_options options = CORACLE_OPEN_OPTIONS_INIT;
  coracle_io io = CORACLE_IO_INIT;
  coracle_frame frame = CORACLE_FRAME_INIT;
  coracle_result result = CORACLE_RESULT_INIT;
  coracle_status worst = CORACLE_ENOT_ACCEPTABLE;
  int version = sizeof CORACLE_VERSION_STRING > 5 && CORACLE_VERSION_NUMBER >= 0x100;
  return version && options.size == sizeof options && io.fd_in == -1 && frame.len == 0 && result.code == -1 && 1 -worst == 7019 ? 0 : 1;
}
