// The header twice in each of two translation units: `-DMAIN` makes the one with `main`.
#include <coracle.hpp>
#include <coracle.hpp>

namespace cc = coracle_cpp;

#ifdef MAIN
bool other();
int main() {
    auto engine = cc::engine::open("/nonexistent/root", {{}, {}, CORACLE_OPEN_EXISTING});
    return !(!engine && engine.error().code == cc::code::not_found && other());
}
#else
bool other();
bool other() { return cc::has_feature("containers") && !cc::set_log(99, [](int, std::string_view, std::string_view) {}); }
#endif
