/** Messages about failed builds, for the messages of builders. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { BuildError, type BuildErrorKind } from '../../src/buildkit/index.ts';
import { condaKind } from '../../src/builds/recipe/conda/conda-kind.ts';
import { dockerfileKind } from '../../src/builds/recipe/recipe-kinds.ts';
import { buildFault } from '../../src/builds/solve/build-fault.ts';

const source = { file: 'Dockerfile', line: 2 };
const messageOf = (kind: BuildErrorKind, message: string, isPlaced = true) =>
  buildFault(new BuildError(kind, message, isPlaced ? { source } : {}), dockerfileKind).message;
const ofStep = (step: string, lastLogLines: readonly string[], exitCode = 1) =>
  buildFault(
    new BuildError('exec', 'exit code', { step, lastLogLines, exitCode, source }),
    dockerfileKind,
  ).message;

suite('why a step failed', () => {
  test('its last five lines follow the sentence', () => {
    const lines = ['1', '2', '3', '4', '5', '6'];
    assert.equal(
      ofStep('[2/2] RUN make', lines, 42),
      "'[2/2] RUN make' ended with exit code 42 (Dockerfile, line 2). Its last lines:\n2\n3\n4\n5\n6",
    );
    assert.equal(
      ofStep('[2/2] RUN make', []),
      "'[2/2] RUN make' ended with exit code 1 (Dockerfile, line 2)",
    );
  });

  test('Dockerfile lines that the caller has not written are not shown', () => {
    const error = new BuildError('exec', 'exit code', { step: '[2/2] RUN make', source });
    assert.match(buildFault(error, dockerfileKind).message, /\(Dockerfile, line 2\)$/);
    assert.doesNotMatch(buildFault(error, condaKind).message, /Dockerfile/);
  });

  test('a program for another platform is reported with a remedy', () => {
    assert.match(
      ofStep('[linux/arm64 2/2] RUN true', ['exec /bin/sh: exec format error']),
      /most likely a program for another platform .* 'containerPlatform', or ask the operator to install emulation \(docker run .*\nexec \/bin\/sh/s,
    );
  });

  test('a long step or long lines do not make a long message', () => {
    const message = ofStep(`[2/2] RUN ${'x'.repeat(5000)}`, Array(20).fill('y'.repeat(2000)));
    assert.ok(message.length < 3000, `${message.length}`);
    assert.match(message, /^'\[2\/2\] RUN x+\.\.\.' ended with exit code 1 \(/);
  });
});

test('a failed ADD is reported with its source', () => {
  const of = (text: string) =>
    buildFault(
      new BuildError('dockerfile', 'failed to load cache key: invalid response status 404', {
        source: { ...source, text },
      }),
      dockerfileKind,
    ).message;
  assert.equal(
    of('ADD --chmod=644 https://example.org/a.txt /a'),
    'https://example.org/a.txt cannot be fetched (Dockerfile, line 2): invalid response status 404',
  );
  assert.match(
    of('ADD ["http://a.example/1", "http://b.example/2", "/x/"]'),
    /^http:\/\/a\.example\/1 or http:\/\/b\.example\/2 cannot/,
  );
});

test('a missing file of another stage is not looked for in the build context', () => {
  const reason =
    'failed to compute cache key: failed to calculate checksum of ref x::y: "/a": not found';
  const { message } = buildFault(
    new BuildError('dockerfile', reason, { source: { ...source, text: 'COPY --from=tool /a /b' } }),
    dockerfileKind,
  );
  assert.equal(
    message,
    "a file is missing (Dockerfile, line 2): '/a' is not in the stage or image of --from",
  );
});

suite('messages of the builder are translated', () => {
  const cases: readonly [BuildErrorKind, string, string | RegExp][] = [
    [
      'dockerfile',
      'dockerfile parse error on line 2: ENV requires at least one argument',
      'the Dockerfile is wrong (Dockerfile, line 2): ENV requires at least one argument',
    ],
    [
      'dockerfile',
      'failed to load cache key: Get "http://127.0.0.1:9/x": connection refused',
      'what ADD names cannot be fetched (Dockerfile, line 2): Get "http://127.0.0.1:9/x": connection refused',
    ],
    [
      'dockerfile',
      'failed to load LLB: network.host is not allowed',
      'RUN --network=host is not allowed here (Dockerfile, line 2): take the option out',
    ],
    [
      'dockerfile',
      'failed to load LLB: security.insecure is not allowed',
      'RUN --security=insecure is not allowed here (Dockerfile, line 2): take the option out',
    ],
    [
      'other',
      'secret foo: not found',
      "the Dockerfile requires the secret foo (Dockerfile, line 2): send it with the request, in its 'secrets' (sluice build --secret id=foo,src=FILE)",
    ],
    [
      'other',
      "failed to load cache key: There is no SSH agent 'default'",
      "the Dockerfile requires an SSH key with the id default (Dockerfile, line 2): send the private key with the request, in its 'ssh' (sluice build --ssh default=FILE)",
    ],
    [
      'dockerfile',
      'failed to compute cache key: failed to calculate checksum of ref x::y: "/none": not found',
      /^a file is missing \(Dockerfile, line 2\): 'none' is not in the build context, .* buildContext/,
    ],
    [
      'push',
      'failed to copy: httpReadSeeker: failed open: failed to do request: Get "https://images.test/v2/x/blobs/sha256:1": dial tcp 192.0.2.1:443: i/o timeout',
      /^a base image is unavailable \(Dockerfile, line 2\): the builder cannot reach images\.test \(timeout\)\. Ask the operator/,
    ],
    [
      'base',
      'images.test/x: failed to do request: Head "https://images.test/v2/x/blobs/sha256:1": dial tcp: lookup images.test on 192.0.2.53:53: no such host',
      /: the builder cannot reach images\.test \(no such host\)/,
    ],
    [
      'base',
      'images.test:9090/x: failed to do request: Head "https://images.test:9090/v2/x/blobs/sha256:1": http: server gave HTTP response to HTTPS client',
      /: the builder speaks https to images\.test:9090, .*\[registry\."images\.test:9090"\] http = true/,
    ],
    ['push', 'no such layer', 'the builder cannot export the image: no such layer'],
    [
      'base',
      'localhost:1/x: failed to resolve source metadata for localhost:1/x:latest: failed to do request: Head "http://localhost:1/v2/x/manifests/latest": dial tcp 127.0.0.1:1: connect: connection refused',
      /^a base image is unavailable \(Dockerfile, line 2\): the builder cannot reach localhost:1 \(connection refused\): /,
    ],
    [
      'base',
      'failed to load cache key: pull access denied, repository does not exist',
      /^a base image is unavailable \(Dockerfile, line 2\): /,
    ],
  ];
  for (const [kind, said, told] of cases) {
    test(said, () => {
      const message = messageOf(kind, said);
      if (typeof told === 'string') assert.equal(message, told);
      else assert.match(message, told);
    });
  }

  test('without a position there are no empty brackets', () => {
    assert.equal(
      messageOf('other', 'secret foo: not found', false),
      "the Dockerfile requires the secret foo: send it with the request, in its 'secrets' (sluice build --secret id=foo,src=FILE)",
    );
  });
});
