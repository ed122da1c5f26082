/** Blobs as a builder sends them. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import {
  WriteAction,
  WriteContentRequestSchema,
  type WriteContentResponse,
  WriteContentResponseSchema,
} from '../../src/buildkit/gen/containerd/services/content/v1/content_pb.js';
import { type BlobSink, blobSendHandler } from '../../src/buildkit/session/exporter-sinks.ts';

type Message = MessageInitShape<typeof WriteContentRequestSchema>;

const { STAT, WRITE, COMMIT } = WriteAction;
const begin = { action: STAT, ref: 'layer-a', expected: 'a', total: 4n };

/** Sends messages to a sink; returns what both sides got. */
async function send(messages: readonly Message[], sink: Partial<BlobSink> = {}) {
  const responses: WriteContentResponse[] = [];
  const failures: unknown[] = [];
  let text = '';
  const calls: string[] = [];
  const handler = blobSendHandler(
    {
      has: () => false,
      open: async (digest, size) => {
        calls.push(`open ${digest} ${size}`);
        return {
          write: async bytes => {
            text += Buffer.from(bytes).toString();
          },
          commit: async () => void calls.push('commit'),
          abort: async () => void calls.push('abort'),
        };
      },
      ...sink,
    },
    error => failures.push(error),
  );
  const bytes = async function* () {
    for (const message of messages) {
      yield Buffer.from(
        toBinary(WriteContentRequestSchema, create(WriteContentRequestSchema, message)),
      );
    }
  };
  const code = await handler
    .handle({
      header: () => [],
      messages: bytes(),
      signal: new AbortController().signal,
      send: async response => void responses.push(fromBinary(WriteContentResponseSchema, response)),
    })
    .then(
      () => status.OK,
      error => error.code,
    );
  const offsets = responses.map(({ offset }) => Number(offset));
  return { code, offsets, text, calls, failures, digest: responses.at(-1)?.digest };
}

const data = (text: string, offset: bigint) => ({
  action: WRITE,
  offset,
  data: Buffer.from(text),
});

suite('the blobs of an image', () => {
  test('each message is answered with the position', async () => {
    const messages = [begin, data('ab', 0n), data('cd', 2n), { action: COMMIT, offset: 4n }];
    const { code, offsets, text, calls, digest } = await send(messages);
    assert.deepEqual(
      { code, offsets, text, digest },
      { code: 0, offsets: [0, 2, 4, 4], text: 'abcd', digest: 'a' },
    );
    assert.deepEqual(calls, ['open a 4', 'commit']);
  });

  test('a blob that is here is not sent', async () => {
    const { code, calls } = await send([begin], { has: digest => digest === 'a' });
    assert.equal(code, status.ALREADY_EXISTS);
    assert.deepEqual(calls, []);
  });

  test('a blob that does not fit, has a gap, is too short or ends early is dropped', async () => {
    const wrong: [Message[], number][] = [
      [[begin, data('abcde', 0n)], status.OUT_OF_RANGE],
      [[begin, data('ab', 1n)], status.OUT_OF_RANGE],
      [[begin, data('ab', 0n), { action: COMMIT }], status.FAILED_PRECONDITION],
      [[begin, data('ab', 0n)], status.OK],
    ];
    for (const [messages, expected] of wrong) {
      const { code, calls, failures } = await send(messages);
      assert.equal(code, expected);
      assert.deepEqual(calls, ['open a 4', 'abort']);
      assert.deepEqual(failures, []);
    }
  });

  test('the failure of a sink is reported', async () => {
    const full = new Error('no space is left');
    const { failures } = await send([begin], { open: () => Promise.reject(full) });
    assert.deepEqual(failures, [full]);
  });
});
