import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOwnPusher } from '../../src/hosted/own-registry.ts';
import { digestOf } from '../../src/oci/digest.ts';

type Deps = Parameters<typeof createOwnPusher>[0];

const bytes = Buffer.from('a config');
const digest = digestOf(bytes);

test('content that a killed server left without a row is entered before a push links it', async () => {
  const steps: string[] = [];
  let isHere = false;
  const pusher = createOwnPusher({
    content: {
      size: async () => bytes.length,
      async claim() {
        steps.push('claimed');
        isHere = true;
        return true;
      },
    },
    blobs: {
      async size() {
        throw new Error('unknown');
      },
      async link() {
        assert.ok(isHere, 'the rows count the content as here');
        steps.push('linked');
      },
    },
    quota: { async admit() {} },
  } as unknown as Deps);
  const access = { registry: 'here', repository: 'a', credentials: undefined, isService: true };
  const blob = { digest, size: bytes.length, isKept: true, open: async () => assert.fail() };
  const signal = AbortSignal.timeout(10_000);
  const put = pusher.putBlob as unknown as (...given: unknown[]) => Promise<string>;
  assert.equal(await put(access, blob, signal), 'mounted');
  assert.deepEqual(steps, ['claimed', 'linked']);
});
