/** The meaning of errors of builders, with messages of several BuildKit versions. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { create, toBinary } from '@bufbuild/protobuf';
import { Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { failureOfBuild } from '../../src/buildkit/errors/call-error.ts';
import { StatusSchema } from '../../src/buildkit/gen/google/rpc/status_pb.js';
import type { BuildErrorKind } from '../../src/buildkit/index.ts';
import { Journal } from '../../src/buildkit/progress/progress.ts';
import { SecretMask } from '../../src/buildkit/progress/secret-mask.ts';

function serviceError(details: string, more: Partial<ServiceError> = {}): ServiceError {
  const metadata = new Metadata();
  return Object.assign(new Error(details), {
    ...{ name: 'Error', code: status.UNKNOWN, details, metadata },
    ...more,
  });
}

/** An error with details as BuildKit sends them: JSON in a protobuf. */
function detailed(message: string, details: Readonly<Record<string, object>>): ServiceError {
  const error = serviceError(message);
  const encoded = create(StatusSchema, {
    details: Object.entries(details).map(([name, value]) => ({
      typeUrl: `github.com/moby/buildkit/${name}+json`,
      value: Buffer.from(JSON.stringify(value)),
    })),
  });
  error.metadata.add('grpc-status-details-bin', Buffer.from(toBinary(StatusSchema, encoded)));
  return error;
}

/** A journal in which one step failed. */
function journalOf(name: string, error: string, text = 'the last word\n'): Journal {
  const journal = new Journal();
  journal.add({
    vertices: [
      {
        ...{ digest: 'sha256:1', name, inputs: [], cached: false, error },
        ...{ startedMs: 1, completedMs: 2, group: undefined },
      },
    ],
    logs: [{ vertex: 'sha256:1', stream: 'stderr', timeMs: 1, text }],
    ...{ statuses: [], warnings: [] },
  });
  return journal;
}

const explain = (error: ServiceError, journal = new Journal(), mask = new SecretMask()) =>
  failureOfBuild(error, 'unix:///b.sock', journal, mask);

suite('kinds of failures', () => {
  const sentences: [BuildErrorKind, string, step?: string][] = [
    ['exec', 'executor failed running [/bin/sh -c exit 42]: exit code: 42', '[2/2] RUN exit 42'],
    ['exec', 'process "/bin/sh -c x" did not complete successfully: exit code: 1'],
    ['dockerfile', 'dockerfile parse error line 2: unknown instruction: RUNN'],
    ['dockerfile', 'dockerfile parse error on line 2: unknown instruction: RUNN'],
    ['dockerfile', 'failed to read dockerfile: open Dockerfile: no such file or directory'],
    ['dockerfile', 'failed to compute cache key: "/nofile" not found: not found'],
    ['dockerfile', 'target stage none could not be found'],
    [
      'dockerfile',
      'failed to load cache key: Get "http://127.0.0.1:1/x": refused',
      '[2/2] ADD http',
    ],
    ['other', 'write /x: no space left on device', '[2/2] COPY a b'],
    ['base', 'reg/x:1: failed to resolve source metadata for reg/x:1: reg/x:1: not found'],
    ['base', 'failed to load cache key: pull access denied, repository does not exist'],
    ['base', 'reg/x:1: not found', '[internal] load metadata for reg/x:1'],
    ['base', 'failed to copy: httpReadSeeker: failed open: unexpected EOF', '[1/2] FROM reg/x:1'],
    ['push', 'failed to push reg/x:1: unexpected status: 401 Unauthorized'],
    ['push', 'unexpected status: 500', 'exporting to image'],
    ['session', 'no active session for abc: context deadline exceeded'],
    ['other', 'secret nope: not found'],
    ['other', "There is no SSH agent 'nope'"],
    ['other', 'exporter "image" could not be found'],
  ];
  for (const [kind, sentence, step] of sentences) {
    test(`${kind}: ${sentence}`, () => {
      const journal = step === undefined ? new Journal() : journalOf(step, sentence);
      const error = explain(serviceError(`failed to solve: ${sentence}`), journal);
      assert.equal(error.kind, kind);
      assert.equal(error.step, step);
      assert.equal(error.exitCode !== undefined, kind === 'exec');
    });
  }

  test('an unavailable builder', () => {
    for (const code of [status.UNAVAILABLE, status.CANCELLED]) {
      assert.equal(explain(serviceError('Connection dropped', { code })).kind, 'unavailable');
    }
    // The form in which grpc-js reports a connection that ended during a response.
    const cut = 'Received RST_STREAM with code 0 (Call ended without gRPC status)';
    const internal = { code: status.INTERNAL };
    assert.equal(explain(serviceError(cut, internal)).kind, 'unavailable');
    assert.equal(explain(serviceError('a panic', internal)).kind, 'other');
    const { RESOURCE_EXHAUSTED: code } = status;
    const pings = explain(serviceError('ENHANCE_YOUR_CALM: too_many_pings', { code }));
    assert.equal(pings.kind, 'unavailable');
    assert.equal(explain(serviceError('received message larger than', { code })).kind, 'other');
    // The time limit of the builder, not of the call.
    const { DEADLINE_EXCEEDED } = status;
    const late = explain(serviceError('no active session for x', { code: DEADLINE_EXCEEDED }));
    assert.equal(late.kind, 'session');
  });

  test('details take precedence over messages', () => {
    const source = {
      info: {
        filename: 'My.Dockerfile',
        data: Buffer.from('FROM x\n  RUN y\n').toString('base64'),
      },
      ranges: [{ start: { line: 2 }, end: { line: 2 } }],
    };
    const error = explain(
      detailed('it broke', {
        'stack.Stack': {},
        'errdefs.Source': source,
        'errdefs.Vertex': { digest: 'sha256:1' },
        'gatewayapi.ExitMessage': { Code: 7 },
      }),
      journalOf('[2/2] RUN y', 'it broke'),
    );
    assert.deepEqual([error.kind, error.exitCode, error.step], ['exec', 7, '[2/2] RUN y']);
    assert.deepEqual(error.source, { file: 'My.Dockerfile', line: 2, text: 'RUN y' });
    assert.deepEqual(error.lastLogLines, ['the last word']);
    assert.equal(explain(detailed('it broke', { 'errdefs.Source': source })).kind, 'dockerfile');
  });

  test('malformed details are ignored', () => {
    const broken = serviceError('it broke');
    broken.metadata.add('grpc-status-details-bin', Buffer.from([255, 255]));
    assert.equal(explain(broken).kind, 'other');
    const odd = {
      'errdefs.Source': [],
      'errdefs.Vertex': 5,
      'gatewayapi.ExitMessage': { Code: 'x' },
    };
    assert.equal(explain(detailed('it broke', odd as never)).kind, 'other');
  });

  test('secrets are masked', () => {
    const mask = new SecretMask();
    mask.add('sesame');
    mask.add('-----BEGIN KEY-----\nline-of-key\n');
    mask.add('abc');
    const journal = journalOf('[2/2] RUN echo sesame', 'x');
    const error = explain(serviceError('no sesame, no line-of-key, but abc'), journal, mask);
    assert.equal(error.message, 'no ***, no ***, but abc');
    assert.equal(error.step, '[2/2] RUN echo ***');
  });

  test('the last lines look as on a terminal', () => {
    const text = '\x1b[31mred\x1b[0m\x07\n10 %\r50 %\r100 %\na\tb\r\n';
    const { lastLogLines } = explain(serviceError('no'), journalOf('[2/2] RUN x', 'x', text));
    assert.deepEqual(lastLogLines, ['red', '100 %', 'a b']);
  });

  test('secrets with control characters inside are masked', () => {
    const mask = new SecretMask();
    mask.add('sesame');
    mask.add('with\ttab');
    const text = 'se\x1b[31msa\x1b[0mme\nse\x07same\nwith\ttab\nwith\t\x1b[1mtab\n';
    const journal = journalOf('[2/2] RUN x', 'x', text);
    const { lastLogLines } = explain(serviceError('no'), journal, mask);
    assert.deepEqual(lastLogLines, ['***', '***', '***', '***']);
  });
});
