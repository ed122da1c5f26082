/** What is wrong with packages that have no wheel, among packages that contradict each other. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { NoPythonSolution, WheelsMissing } from '../../../src/pypi/index.ts';
import { startIndex } from './scripted-index.ts';
import { indexAt, solverFor } from './solving-world.ts';

const publicIndex = 'https://pypi.org/simple';
const files: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  // A source distribution alone.
  av: { 'av-1.0.tar.gz': [] },
  movie: { 'movie-1.0-py3-none-any.whl': ['av'] },
  torch: { 'torch-1.0-py3-none-any.whl': [], 'torch-2.0-py3-none-any.whl': [] },
  vision: { 'vision-1.0-py3-none-any.whl': ['torch==2.0'] },
  // For another system alone.
  winonly: { 'winonly-1.0-cp312-cp312-win_amd64.whl': [] },
};

test('a contradiction is the reason, and not a package without a wheel beside it', async t => {
  const index = await startIndex(t, (request, response) => {
    const path = request.url ?? '';
    const [, name = ''] = /^\/simple\/([^/]+)\/$/.exec(path) ?? [];
    const project = files[name];
    if (project !== undefined) {
      const listed = Object.keys(project).map(filename => ({
        filename,
        url: `/files/${filename}`,
        hashes: { sha256: createHash('sha256').update(filename).digest('hex') },
        'core-metadata': filename.endsWith('.whl'),
      }));
      response.writeHead(200, { 'content-type': 'application/vnd.pypi.simple.v1+json' });
      response.end(JSON.stringify({ meta: { 'api-version': '1.1' }, name, files: listed }));
      return;
    }
    const [, file = ''] = /^\/files\/(.+)\.metadata$/.exec(path) ?? [];
    const [of = '', version = ''] = file.split('-');
    const requires = files[of]?.[file];
    if (requires === undefined) return void response.writeHead(404).end();
    const lines = requires.map(it => `Requires-Dist: ${it}\n`).join('');
    response.end(`Metadata-Version: 2.1\nName: ${of}\nVersion: ${version}\n${lines}`);
  });
  const { solve } = await solverFor(t, [indexAt(index.url, publicIndex)]);
  const failureOf = (...pip: string[]) =>
    solve(pip).then(
      () => undefined,
      (error: Error) => error,
    );

  for (const pip of [['av==1.0'], ['av'], ['movie']]) {
    const failure = await failureOf(...pip);
    assert.ok(failure instanceof WheelsMissing, String(failure));
    assert.deepEqual(
      failure.projects.map(({ name }) => name),
      ['av'],
    );
  }
  for (const pip of [['av==1.0'], ['av'], ['movie']]) {
    const failure = await failureOf(...pip, 'torch==1.0', 'vision');
    assert.ok(failure instanceof NoPythonSolution, String(failure));
    assert.match(
      failure.message,
      /no solution.*vision depend on torch==2\.0 and you require torch==1\.0/,
    );
  }
  const both = await failureOf('av==1.0', 'torch==1.0', 'vision');
  assert.match(String(both), /These packages have no wheel that fits, and would be built: av\.$/);
  const other = await failureOf('winonly', 'av');
  assert.ok(other instanceof NoPythonSolution, String(other));
  assert.match(other.message, /no versions of winonly/);
});
