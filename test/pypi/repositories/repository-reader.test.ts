/** What Sluice reads of repositories beside their files, from a real git server. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import {
  createRepositoryReader,
  type RepositoryReader,
} from '../../../src/pypi/repositories/repository-reader.ts';
import {
  createTransport,
  defaultRegistrySettings,
  type Transport,
} from '../../../src/upstream/index.ts';
import { type GitServer, startGitServer } from '../../world/git-server.ts';
import { makeTempDir, type TempDir } from '../../world/temp-dir.ts';

const { signal } = new AbortController();
const timeouts = { connectMs: 5000, headersMs: 10_000, idleMs: 10_000 };

for (const canFilter of [true, false]) {
  suite(`a repository whose server sends ${canFilter ? 'commits alone' : 'files also'}`, () => {
    let git: GitServer;
    let directory: TempDir;
    let transport: Transport;
    let reader: RepositoryReader;
    before(async () => {
      git = await startGitServer({ canFilter });
      directory = await makeTempDir('repositories');
      const ca = await readFile(git.certificates.authority, 'utf8');
      const settings = new Map([
        [git.host, { ...defaultRegistrySettings, ca, allowPrivateAddress: true }],
      ]);
      transport = createTransport(settings, timeouts);
      reader = createRepositoryReader(transport, directory.path);
    });
    after(async () => {
      await transport?.close();
      await git?.stop();
      await directory?.remove();
    });
    const addressOf = (name: string) => `https://${git.host}/${name}.git`;

    test('the tags that lead to a commit or to one before it belong to its history', async () => {
      await git.add('tool', { a: 'a\n' });
      // Long messages that begin alike: git stores them as differences.
      const said = `${'the same words again and again, '.repeat(40)}\n`;
      for (let number = 0; number < 12; number += 1) {
        await git.run(
          'tool',
          'commit',
          '--quiet',
          '--allow-empty',
          '--message',
          `${said}${number}`,
        );
      }
      await git.run('tool', 'gc', '--quiet');
      const list = await git.run('tool', 'rev-list', '--reverse', 'HEAD');
      const ids = list.split('\n');
      const [, second = '', , fourth = ''] = ids;
      await git.run('tool', 'tag', 'light', second);
      await git.run('tool', 'tag', '--annotate', '--message', 'x', 'heavy', second);
      await git.run('tool', 'tag', '--annotate', '--message', 'x', 'nested', 'heavy');
      await git.run('tool', 'tag', 'later', ids[10] ?? '');
      await git.run('tool', 'tag', 'tree', `${second}^{tree}`);
      await git.run('tool', 'switch', '--quiet', '--create', 'side', second);
      await git.commit('tool', { b: 'b\n' });
      await git.git('tool', 'tag', 'elsewhere');
      const url = addressOf('tool');
      const listed = await reader.tagsOf(url, signal);
      await using history = await reader.historyOf({ url, id: fourth }, listed, signal);
      assert.equal(history.problem, undefined);
      const names = history.tags.map(({ name }) => name).sort();
      assert.deepEqual(names, ['heavy', 'light', 'nested', 'v1']);
      assert.ok((history.pack?.size ?? 0) > 100);
      await git.git('tool', 'tag', 'elsewhere2', ids[11] ?? '');
      const changed = await reader.tagsOf(url, signal);
      assert.notEqual(changed.label, listed.label);
      await using same = await reader.historyOf({ url, id: fourth }, changed, signal);
      assert.equal(same.label, history.label);
      await git.git('tool', 'tag', 'new', fourth);
      const last = await reader.tagsOf(url, signal);
      await using other = await reader.historyOf({ url, id: fourth }, last, signal);
      assert.notEqual(other.label, history.label);
    });

    if (!canFilter) return;

    test('a history that is too large, or not here, is named', async () => {
      await git.add('large', { a: 'a\n' });
      const url = addressOf('large');
      const listed = await reader.tagsOf(url, signal);
      const small = createRepositoryReader(transport, directory.path, { maxBytes: 100 });
      const id = await git.run('large', 'rev-parse', 'HEAD');
      const history = await small.historyOf({ url, id }, listed, signal);
      assert.match(history.problem ?? '', /takes more than 100 bytes/);
      const absent = await reader.historyOf({ url, id: '1'.repeat(40) }, listed, signal);
      assert.match(absent.problem ?? '', /its server refuses to send its history/);
      assert.deepEqual(await readdir(directory.path), []);
    });

    test('submodules are listed with their own', async () => {
      const inner = await git.add('inner', { i: 'i\n' });
      await git.add('middle', { m: 'm\n' });
      const add = (name: string, id: string, path: string) =>
        git.run(name, 'update-index', '--add', '--cacheinfo', `160000,${id},${path}`);
      const listing = (name: string, path: string, url: string, more = '') =>
        `[submodule "${name}"]\n\tpath = ${path}\n\turl = ${url}\n${more}`;
      await add('middle', inner, 'deep/inner');
      const middle = await git.commit('middle', {
        '.gitmodules': listing('x', 'deep/inner', '../inner.git'),
      });
      await git.add('outer', { o: 'o\n' });
      const url = addressOf('outer');
      const none = await git.run('outer', 'rev-parse', 'HEAD');
      assert.deepEqual(await reader.submodulesOf({ url, id: none }, signal), {
        modules: [],
        isListed: false,
      });
      await add('outer', middle, 'third/middle');
      await add('outer', inner, 'skipped');
      const list = [
        listing('a', 'third/middle', addressOf('middle')),
        listing('b', 'skipped', addressOf('inner'), '\tupdate = none\n'),
        listing('c', 'absent', addressOf('inner')),
      ].join('');
      const outer = await git.commit('outer', { '.gitmodules': list });
      assert.deepEqual(await reader.submodulesOf({ url, id: outer }, signal), {
        modules: [
          { path: 'third/middle', url: addressOf('middle'), id: middle },
          { path: 'third/middle/deep/inner', url: addressOf('inner'), id: inner },
        ],
        isListed: true,
      });
      for (const [written, message] of [
        ['git@127.0.0.1:a/b.git', /at "git@127\.0\.0\.1:a\/b\.git", which is not an https address/],
        ['https://me:sesame@h.test/a', /at "https:\/\/h\.test\/a", which is not an https/],
        ['https://127.0.0.1:9/a.git', /a loopback, private or otherwise closed/],
      ] as const) {
        const id = await git.commit('outer', {
          '.gitmodules': listing('a', 'third/middle', written),
        });
        await assert.rejects(reader.submodulesOf({ url, id }, signal), message, written);
      }
      // Each commit has the one before it as a submodule.
      let id = await git.commit('outer', { '.gitmodules': listing('a', 'x', './../outer.git') });
      for (let depth = 0; depth < 7; depth += 1) {
        await add('outer', id, 'x');
        await git.run('outer', 'commit', '--quiet', '--message', 'deeper');
        id = await git.run('outer', 'rev-parse', 'HEAD');
      }
      await git.git('outer', 'status');
      await assert.rejects(
        reader.submodulesOf({ url, id }, signal),
        /submodule in "x\/x\/x\/x\/x\/x" that is 6 submodules deep/,
      );
    });
  });
}
