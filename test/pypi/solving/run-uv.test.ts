/** uv as a program: what it gets, what it says, and how it ends. */
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { UvFailed, WheelsMissing } from '../../../src/pypi/index.ts';
import { hasEnded } from '../../world/ended-process.ts';
import { eventually } from '../../world/eventually.ts';
import { boundMs, longestBlock } from '../../world/longest-block.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { listing, startIndex } from './scripted-index.ts';
import { indexAt, solverFor } from './solving-world.ts';

const publicIndex = 'https://pypi.org/simple';
const lib = { versions: { '2.5': [], '3.1': [] } };

/** Starts a solver with a shell script in place of uv. */
async function withProgram(
  t: TestContext,
  script: (folder: string) => string,
  limits: { readonly timeout?: number; readonly memory?: number } = {},
) {
  const folder = await makeTempDir('uv');
  t.after(folder.remove);
  const uv = folder.join('uv');
  await writeFile(uv, `#!/bin/sh\n${script(folder.path)}\n`, { mode: 0o755 });
  const index = await startIndex(t, listing({ lib }));
  return { ...(await solverFor(t, [indexAt(index.url, publicIndex)], { uv, ...limits })), folder };
}

function failure(reason: string, words: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof UvFailed, String(error));
    assert.equal(error.reason, reason);
    assert.match(error.words, words);
    return true;
  };
}

test('an older or broken uv is not taken for requirements without a solution', async t => {
  const reason = "the 'pip' packages that the uv of this server cannot solve";
  const scripts: readonly (readonly [string, RegExp])[] = [
    ['echo "error: unexpected argument --format" >&2; exit 2', /^unexpected argument --format$/],
    ['exit 0', /^it has no result$/],
    ['exec /nonexistent/uv', /not found/],
    ['exit 3', /^$/],
  ];
  for (const [script, words] of scripts) {
    const { solve } = await withProgram(t, () => script);
    await assert.rejects(solve(['lib']), failure(reason, words), script);
  }
});

test('a package that requires another one by its address is named', async t => {
  const { lib: plain, ...projects } = {
    lib,
    gitty: { versions: { '1.0': ['other @ git+https://me:sesame-1@example.org/other.git@main'] } },
  };
  const index = await startIndex(t, listing({ lib: plain, ...projects }));
  const { solve } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const reason = 'the address of other that another package of pip requires';
  await assert.rejects(solve(['gitty']), failure(reason, /^(?!.*sesame-1)/s));
});

test('the words of uv have no paths of this server', async t => {
  const { solve, directory } = await withProgram(
    t,
    () =>
      'echo "error: cannot read $0 in $PWD/x, (/opt/conda/lib) and /var/lib/sluice/x: no. The index at \\`$UV_DEFAULT_INDEX\\` says so" >&2; exit 2',
  );
  await assert.rejects(solve(['lib']), (error: UvFailed) => {
    assert.match(error.words, /^cannot read uv in/);
    assert.doesNotMatch(error.words, /\/(?:opt|var|tmp)/);
    assert.ok(!error.words.includes(directory));
    assert.match(error.words, /no\. The index says so$/);
    return true;
  });
});

test('a hint of uv is a sentence of its own', async t => {
  const words = 'No solution found when resolving dependencies: because of lib. hint: look here';
  const { solve } = await withProgram(t, () => `echo "${words}" >&2; exit 1`);
  await assert.rejects(solve(['lib']), /have no solution\. because of lib\. hint: look here\.$/);
});

test('nothing of the machine and of the operator reaches the solver, and its arguments have no secret', async t => {
  const { solve, folder } = await withProgram(
    t,
    path => `/usr/bin/env > ${path}/seen; echo "$@" > ${path}/arguments; exit 2`,
  );
  process.env.UV_INDEX_URL = 'https://operator.example/simple';
  process.env.PIP_INDEX_URL = 'https://me:secret@operator.example/simple';
  t.after(() => {
    delete process.env.UV_INDEX_URL;
    delete process.env.PIP_INDEX_URL;
  });
  await assert.rejects(solve(['lib']));
  const seen = await readFile(folder.join('seen'), 'utf8');
  assert.match(seen, /^HOME=.*\/solving\/[^/]+\/home$/m);
  assert.match(seen, /^UV_DEFAULT_INDEX=http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{64}\/simple\/$/m);
  assert.doesNotMatch(seen, /operator|secret|PIP_|UV_INDEX/);
  // Other users of the machine see them.
  assert.doesNotMatch(await readFile(folder.join('arguments'), 'utf8'), /[0-9a-f]{64}|127\.0/);
});

test('a large solution is read without holding the event loop', async t => {
  const { solve, folder } = await withProgram(t, path => `exec /bin/cp ${path}/lock pylock.toml`);
  const wheel = `    { url = "http://127.0.0.1/installed/1.0/a.whl", hashes = { sha256 = "${'a'.repeat(64)}" } },\n`;
  const project = `\n[[packages]]\nname = "a"\nversion = "1.0"\nwheels = [\n${wheel.repeat(50)}]\n`;
  await writeFile(folder.join('lock'), `lock-version = "1.0"\n${project.repeat(2000)}`);
  const { cpuMs } = await longestBlock(async () => assert.deepEqual(await solve(['lib']), []));
  assert.ok(cpuMs < boundMs(50), `held for ${cpuMs} ms`);
});

test('a version with 60,000 wheels is read without holding the event loop', async t => {
  const { solve, folder } = await withProgram(t, path => `exec /bin/cp ${path}/lock pylock.toml`);
  const file = `http://127.0.0.1/secret/files/a/${'0'.repeat(32)}/${'A'.repeat(40)}`;
  const wheels = Array.from(
    { length: 60_000 },
    (_, at) =>
      `    { url = "${file}/a-1.0-${at}-py3-none-any.whl", hashes = { sha256 = "${'a'.repeat(64)}" } },\n`,
  );
  const project = `\n[[packages]]\nname = "a"\nversion = "1.0"\nwheels = [\n${wheels.join('')}]\n`;
  await writeFile(folder.join('lock'), `lock-version = "1.0"\n${project}`);
  const { cpuMs } = await longestBlock(() => assert.rejects(solve(['lib']), WheelsMissing));
  assert.ok(cpuMs < boundMs(50), `held for ${cpuMs} ms`);
});

test('a resolver that runs away ends with its limits, and so does what it has started', async t => {
  const spin = await withProgram(
    t,
    path => `/bin/sleep 600 & echo $! > ${path}/child; while :; do echo noise >&2; done`,
    { timeout: 2000 },
  );
  await assert.rejects(spin.solve(['lib']), /were not solved within 2 s/);
  const child = (await readFile(spin.folder.join('child'), 'utf8')).trim();
  await eventually('the child has ended', () => hasEnded(child));
  const hog = await withProgram(t, () => 'exec /usr/bin/tail /dev/zero', {
    memory: 64 * 1024 * 1024,
  });
  await assert.rejects(hog.solve(['lib']), /requires more than 64 MiB of memory/);
});

test('a request that is given up leaves no directory and no program, whenever that is', async t => {
  const { solver, directory, request } = await withProgram(t, () => 'exec /bin/sleep 60');
  for (let turns = 0; turns < 12; turns += 1) {
    const left = new AbortController();
    const solving = solver.solve(request(['lib']), { log() {}, signal: left.signal });
    solving.catch(() => {});
    for (let turn = 0; turn < turns; turn += 1) await new Promise(setImmediate);
    left.abort(new Error('left'));
    await assert.rejects(solving, /left/);
  }
  assert.deepEqual(await readdir(`${directory}/solving`).catch(() => []), []);
});
