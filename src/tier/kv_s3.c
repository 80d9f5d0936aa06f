#include "tier/kv_impl.h"
enum err kv_s3_init(struct kv *kv, struct str rest, struct errinfo *info)
{
    (void)kv;
    (void)rest;
    return err_set(info, ERR_UNSUPPORTED, "s3");
}
const struct kv_protocol kv_s3 = {.name = "s3"};
