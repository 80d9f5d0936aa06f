/*
 * catch.c: an exception handler without a C++ compiler.
 *
 * The unwinder asks the personality routine of each frame whether the frame has a handler. A C
 * compiler gives no frame such a routine, so one frame is written in assembler: catch_frame. Its
 * routine answers yes to every exception and continues at catch_landing, with the exception in the
 * register of the return value.
 *
 * On other processors the call is made without a handler.
 */
#include "engine/catch.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unwind.h>

#include "base/attr.h"

#if defined(__x86_64__) || defined(__aarch64__)

#define HIDDEN __attribute__((visibility("hidden")))

/* NULL, or the exception that was thrown. */
HIDDEN struct _Unwind_Exception *catch_frame(void (*body)(void *arg), void *arg);
HIDDEN extern const char catch_landing[];
HIDDEN _Unwind_Reason_Code catch_personality(int version, _Unwind_Action actions,
                                             _Unwind_Exception_Class kind,
                                             struct _Unwind_Exception *exception,
                                             struct _Unwind_Context *context);

__asm__(".text\n"
        ".p2align 4\n"
        ".globl catch_frame\n"
        ".hidden catch_frame\n"
        ".type catch_frame, %function\n"
        ".globl catch_landing\n"
        ".hidden catch_landing\n"
        "catch_frame:\n"
        "    .cfi_startproc\n"
        "    .cfi_personality 0x1b, catch_personality\n" /* relative to its place, 4 bytes */
#ifdef __x86_64__
        "    endbr64\n"
        "    subq $8, %rsp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    movq %rdi, %rax\n"
        "    movq %rsi, %rdi\n"
        "    call *%rax\n"
        "    xorl %eax, %eax\n"
        "    jmp 1f\n"
        "catch_landing:\n"
        "    endbr64\n"
        "1:  addq $8, %rsp\n"
        "    .cfi_def_cfa_offset 8\n"
        "    ret\n"
#else
        "    hint #34\n" /* bti c: where a call may arrive; no operation on older processors */
        "    stp x29, x30, [sp, #-16]!\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset 29, -16\n"
        "    .cfi_offset 30, -8\n"
        "    mov x29, sp\n"
        "    mov x2, x0\n"
        "    mov x0, x1\n"
        "    blr x2\n"
        "    mov x0, #0\n"
        "    b 1f\n"
        "catch_landing:\n"
        "    hint #36\n" /* bti j: where the unwinder may jump */
        "1:  ldp x29, x30, [sp], #16\n"
        "    .cfi_def_cfa_offset 0\n"
        "    .cfi_restore 29\n"
        "    .cfi_restore 30\n"
        "    ret\n"
#endif
        "    .cfi_endproc\n"
        ".size catch_frame, .-catch_frame\n");

_Unwind_Reason_Code catch_personality(int version, _Unwind_Action actions,
                                      _Unwind_Exception_Class kind,
                                      struct _Unwind_Exception *exception,
                                      struct _Unwind_Context *context)
{
    (void)version;
    (void)kind;
    if (actions & _UA_FORCE_UNWIND) /* the thread ends: no exception */
        return _URC_CONTINUE_UNWIND;
    if (actions & _UA_SEARCH_PHASE)
        return _URC_HANDLER_FOUND;
    _Unwind_SetGR(context, __builtin_eh_return_data_regno(0), (uintptr_t)exception);
    _Unwind_SetIP(context, (uintptr_t)catch_landing);
    return _URC_INSTALL_CONTEXT;
}

/* ---- which exception ---- */

/* The C++ library is loaded by libllama. It is not linked here, so its functions are looked up. */
static void *find(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

/* Ends the exception. Returns the mangled name of its type, "" when it is not known. */
static const char *finish(struct _Unwind_Exception *exception)
{
    void *(*begin)(void *), (*end)(void), *(*type)(void);
    const char *name = "";

    *(void **)&begin = find("__cxa_begin_catch");
    *(void **)&end = find("__cxa_end_catch");
    *(void **)&type = find("__cxa_current_exception_type");
    if (begin == NULL || end == NULL || type == NULL) {
        _Unwind_DeleteException(exception);
        return name;
    }
    begin(exception);
    const char *const *info = type(); /* std::type_info: a table of functions, then the name */
    if (info != NULL)
        name = info[1];
    end();
    return name;
}

static bool is_memory(const char *type)
{
    static const char *const names[] = {"St9bad_alloc", "St20bad_array_new_length",
                                        "St12length_error"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(type, names[i]) == 0)
            return true;
    return false;
}

enum err catch_call(void (*body)(void *arg), void *arg)
{
    struct _Unwind_Exception *exception = catch_frame(body, arg);

    if (exception == NULL)
        return ERR_OK;
    return is_memory(finish(exception)) ? ERR_NOMEM : ERR_ENGINE;
}

#else

enum err catch_call(void (*body)(void *arg), void *arg)
{
    body(arg);
    return ERR_OK;
}

#endif
