/* The native half of Host.java. */
#include <jni.h>

char *host_look(const char *root, const char *run);
int host_job(const char *root, const char *run, const char *image, int report);
void host_free(char *text);

JNIEXPORT jstring JNICALL Java_Host_look(JNIEnv *env, jclass class, jstring root, jstring run) {
    (void)class;
    const char *r = (*env)->GetStringUTFChars(env, root, NULL), *u = (*env)->GetStringUTFChars(env, run, NULL);
    char *text = host_look(r, u);
    jstring answer = (*env)->NewStringUTF(env, text);
    host_free(text);
    (*env)->ReleaseStringUTFChars(env, root, r);
    (*env)->ReleaseStringUTFChars(env, run, u);
    return answer;
}

JNIEXPORT jint JNICALL Java_Host_job(JNIEnv *env, jclass class, jstring root, jstring run, jstring image) {
    (void)class;
    const char *r = (*env)->GetStringUTFChars(env, root, NULL), *u = (*env)->GetStringUTFChars(env, run, NULL);
    const char *i = (*env)->GetStringUTFChars(env, image, NULL);
    int failed = host_job(r, u, i, 2);
    (*env)->ReleaseStringUTFChars(env, root, r);
    (*env)->ReleaseStringUTFChars(env, run, u);
    (*env)->ReleaseStringUTFChars(env, image, i);
    return failed;
}
