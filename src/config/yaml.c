#include "config/yaml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* The name holds the version of the library's interface: with another number the structs would have another shape. */
static const char library_name[] = "libfyaml.so.0";

static const struct yaml_function {
    const char *name;
    size_t at; /* in struct yaml */
} functions[] = {
#define X(name) {"fy_" #name, offsetof(struct yaml, name)},
    YAML_FUNCTIONS(X)
#undef X
};

const char *yaml_open(struct yaml *y)
{
    y->library = dlopen(library_name, RTLD_LAZY | RTLD_LOCAL);
    if (y->library == NULL)
        return dlerror();
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *address = dlsym(y->library, functions[i].name);
        if (address == NULL) {
            yaml_close(y);
            return "a function that is called here is not in it";
        }
        memcpy((char *)y + functions[i].at, &address, sizeof address); /* ISO C has no cast from one to the other */
    }
    return NULL;
}

void yaml_close(struct yaml *y)
{
    dlclose(y->library);
    y->library = NULL;
}
