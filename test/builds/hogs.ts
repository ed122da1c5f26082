/**
 * Steps that use all of a resource, and the messages when they are stopped. Those that hold it do so for more than half a minute:
 * other tests may free as much of the same disk at the same time, and then the builder measures again only after that.
 */
export const hogs = {
  memory: {
    script: `awk 'BEGIN { x = "xxxxxxxxxxxxxxxx"; while (1) x = x x }'`,
    reason: /exit code: 137/,
  },
  processes: {
    script: 'i=0; while [ $i -lt 150 ]; do sleep 30 & i=$((i+1)); done',
    reason: /can't fork/,
  },
  disk: {
    script: 'dd if=/dev/zero of=/big bs=1M count=5000',
    reason: /has written more than the 128 MiB that a build may write|No space left on device/,
  },
  'disk of a cache mount': {
    mount: '--mount=type=cache,target=/cache ',
    script: 'dd if=/dev/zero of=/cache/big bs=1M count=5000',
    reason: /has written more than the 128 MiB that a build may write|No space left on device/,
  },
  'disk without a name': {
    script: 'exec 3> /big; rm /big; dd if=/dev/zero bs=1M count=200 >&3; sleep 75',
    reason: /has written more than the 128 MiB that a build may write|No space left on device/,
  },
  'disk without a name or a descriptor': {
    script:
      'mkdir /held; for i in 1 2; do cp /bin/busybox /held; dd if=/dev/zero bs=1M count=100 >> /held/busybox; /held/busybox sleep 75 & until [ "$(readlink /proc/$!/exe)" = /held/busybox ]; do sleep 0.1; done; rm /held/busybox; done; wait',
    reason: /has written more than the 128 MiB that a build may write|No space left on device/,
  },
  files: {
    script: 'mkdir /many && cd /many && seq 1 40000 | xargs touch; sleep 75',
    reason: /has written more than the \d+ files that a build may write|No space left on device/,
  },
  'shared memory': {
    script: 'dd if=/dev/zero of=/dev/shm/big bs=1M count=300',
    reason: /No space left on device|exit code: 137/,
  },
};
