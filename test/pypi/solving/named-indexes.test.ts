/** Indexes that a request names: which one answers for a name, and what they may not reach. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listing, startIndex } from './scripted-index.ts';
import { indexAt, solverFor } from './solving-world.ts';

const publicIndex = 'https://pypi.org/simple';
const extraIndex = 'https://wheels.test/simple';
const extra = { url: extraIndex, isExtra: true };

test('the first index that has a name is the only one for it, and one that is down is not passed over', async t => {
  const main = await startIndex(
    t,
    listing({ lib: { versions: { '9.0': [] } }, other: { versions: { '1.0': [] } } }),
  );
  const own = await startIndex(t, listing({ lib: { versions: { '2.0+cpu': ['other'] } } }));
  const settings = [indexAt(main.url, publicIndex), indexAt(own.url, extraIndex)];
  const { solver, request, solve } = await solverFor(t, settings, { freshMs: 0 });
  const options = { log() {}, signal: t.signal };
  const from = async (...given: Parameters<typeof request>) => {
    const wheels = await solver.solve({ ...request(...given), indexes: [extra] }, options);
    return wheels.map(({ name, version }) => `${name} ${version}`);
  };
  assert.deepEqual(await from(['lib']), ['lib 2.0+cpu', 'other 1.0']);
  assert.equal((await solve(['lib']))[0]?.version, '9.0', 'another request does not get it');
  await assert.rejects(from(['lib>=9']), {
    kind: 'bad-request',
    message:
      /The first index that has a name is the only one for it: lib at https:\/\/wheels\.test\/simple/,
  });
  const replaced = [{ url: extraIndex, isExtra: false }];
  const asked = main.requests.length;
  await assert.rejects(
    solver.solve({ ...request(['lib']), indexes: replaced }, options),
    /no solution.*other/s,
  );
  assert.equal(main.requests.length, asked, '--index-url replaces the public index');
  own.answer = (_, response) => void response.writeHead(503).end();
  await assert.rejects(from(['lib']), { kind: 'upstream-unusable' });
});

test('an index that only the request names reaches no closed address, and takes no name of a configured index', async t => {
  const main = await startIndex(t, listing({ lib: { versions: { '1.0': [] } } }));
  const theirs = await startIndex(
    t,
    listing({ lib: { versions: { '9.0': [] } }, evil: { versions: { '1.0': [] } } }),
  );
  const { solver, request } = await solverFor(t, [indexAt(main.url, publicIndex)]);
  const lines: string[] = [];
  const solve = (pip: readonly string[]) =>
    solver.solve(
      { ...request(pip), indexes: [{ url: theirs.url, isExtra: true }] },
      { log: line => void lines.push(line), signal: t.signal },
    );
  assert.equal((await solve(['lib']))[0]?.version, '1.0');
  assert.match(lines.join('\n'), /answers only for names that the indexes of the configuration/);
  await assert.rejects(solve(['lib==9.0']), {
    message: new RegExp(
      `lib at https://pypi\\.org/simple\\. Those that the operator has listed in 'pypi' come first: .*list ${theirs.url}, too\\.$`,
    ),
  });
  await assert.rejects(solve(['evil']), { kind: 'bad-request' });
  assert.deepEqual(theirs.requests, []);
});

test('a local version that is not at the public index is said to be at another one', async t => {
  const main = await startIndex(t, listing({ torch: { versions: { '2.1.0': [] } } }));
  const { solver, request, solve } = await solverFor(t, [
    indexAt(main.url, publicIndex),
    indexAt(main.url, extraIndex),
  ]);
  await assert.rejects(solve(['torch==2.1.0+cu118']), {
    message:
      /The public index has no versions with '\+': add .* \(for PyTorch '--extra-index-url https:\/\/download\.pytorch\.org\/whl\/cu118'\), or ask for torch==2\.1\.0\.$/,
  });
  await assert.rejects(solve(['torch==2.1.0+local.1']), {
    message: /with '--extra-index-url', or ask for torch==2\.1\.0\.$/,
  });
  const own = { ...request(['torch==2.1.0+cu118']), indexes: [{ ...extra, isExtra: false }] };
  await assert.rejects(solver.solve(own, { log() {}, signal: t.signal }), {
    message: /^(?!.*public index)/,
  });
});

test('versions that are not final are chosen where the request allows them, also of what others require', async t => {
  const versions = { '1.0': ['other'], '2.0rc1': ['other'] };
  const index = await startIndex(
    t,
    listing({ lib: { versions }, other: { versions: { '3.0': [], '4.0b2': [] } } }),
  );
  const { solver, request } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const solve = async (prereleases: boolean) => {
    const options = { log() {}, signal: t.signal };
    const wheels = await solver.solve({ ...request(['lib']), prereleases }, options);
    return wheels.map(({ name, version }) => `${name} ${version}`);
  };
  assert.deepEqual(await solve(false), ['lib 1.0', 'other 3.0']);
  assert.deepEqual(await solve(true), ['lib 2.0rc1', 'other 4.0b2']);
});

test('a project is not taken for one of Conda because of its name', async t => {
  const index = await startIndex(t, listing({ installed: { versions: { '1.0': [] } } }));
  const { solve } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  assert.equal((await solve(['installed']))[0]?.version, '1.0');
});

test('a request names few indexes', async t => {
  const { solver, request } = await solverFor(t, []);
  const indexes = Array.from({ length: 9 }, (_, at) => ({ ...extra, url: `${extraIndex}/${at}` }));
  await assert.rejects(
    solver.solve({ ...request(['lib']), indexes }, { log() {}, signal: t.signal }),
    /^Fault: More than 8 indexes/,
  );
});
