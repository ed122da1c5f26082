/** Build contexts and named contexts on a real BuildKit. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, link, mkdir, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { type Header, pack } from 'tar-stream';
import { digestOf } from '../../src/oci/digest.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { runWithPodman } from '../world/clients.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { assertSuccess } from './served.ts';

interface BuildResponse extends ContainerResponse {
  readonly buildId: string;
}

type Entry = readonly [header: Partial<Header> & { name: string }, content?: string];

async function tarOf(entries: readonly Entry[]): Promise<Buffer> {
  const tar = pack();
  for (const [header, content] of entries)
    tar.entry({ mtime: new Date(0), ...header }, content ?? '');
  tar.finalize();
  const parts: Buffer[] = [];
  for await (const part of tar) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

const base64 = (text: string | Buffer) => Buffer.from(text).toString('base64');
const inline = (gzip: Buffer) => ({ location: `data:${base64(gzip)}` });

const [largeFiles, smallBytes, largeBytes] = [500, 20_000, 2_000_000];

/** The number that `12.3 MB` stands for. */
function bytesIn(text: string): number {
  const [, number = '', unit = ''] = /^([\d.]+) (\w+)$/.exec(text) ?? [];
  return Number(number) * 1000 ** ['B', 'kB', 'MB', 'GB'].indexOf(unit);
}

suite('build contexts', { concurrency: 2 }, () => {
  let registry: Registry;
  let closed: Registry;
  let buildkitd: Buildkitd;
  let sluice: Sluice;
  let root: Root;
  let web: Server;
  let base: string;
  let other: string;
  const files = new Map<string, Buffer>();

  before(async () => {
    registry = await startRegistry();
    closed = await startRegistry({ auth: 'basic' });
    const pushed = await pushCorpus(registry, ['busybox:oci', 'cfg:full']);
    await pushCorpus(closed, ['busybox:oci']);
    base = pushed.get('busybox:oci')?.reference ?? '';
    other = pushed.get('cfg:full')?.reference ?? '';
    web = createServer((request, response) => response.end(files.get(request.url ?? '')));
    await new Promise<void>(resolve => web.listen(0, '127.0.0.1', resolve));
    buildkitd = await startBuildkitd();
    sluice = await startSluice({ config: configuration() });
    root = await openRoot('forky');
  });
  after(async () => {
    await root?.close();
    await sluice?.stop();
    await buildkitd?.stop();
    web?.close();
    await closed?.stop();
    await registry?.stop();
  });

  const webHost = () => `127.0.0.1:${(web.address() as AddressInfo).port}`;
  const configuration = () => ({
    buildkit: [buildkitd.address],
    layers: { privateHosts: [webHost()] },
    limits: { builds: { anonymous: 'off' } },
    registries: { [registry.host]: { plainHttp: true }, [closed.host]: { plainHttp: true } },
  });
  const request = async (dockerfile: string, more: object, server = sluice) =>
    (await server.request({ containerFile: base64(dockerfile), ...more })) as BuildResponse;
  const manifestOf = (name: string, server = sluice) =>
    fetch(server.at(name, `manifests/${name.split(':').at(-1)}`));
  const run = async ({ targetImage }: BuildResponse) =>
    assertSuccess(await runWithPodman(root, targetImage));

  test('in a filtered context, .dockerignore is an ordinary file', async () => {
    const tar = await tarOf([
      [{ name: '.dockerignore' }, 'kept\n'],
      [{ name: 'kept' }, 'kept\n'],
    ]);
    const dockerfile = `FROM ${base}\nCOPY . /context/\nCMD ls -A /context\n`;
    const response = await request(dockerfile, {
      buildContext: { ...inline(gzipSync(tar)), isFiltered: true },
    });
    assert.equal(await run(response), '.dockerignore\nkept\n');
  });

  test('COPY takes files, modes and links from it, and its .dockerignore is honoured', async () => {
    const tar = await tarOf([
      [{ name: '.dockerignore' }, '# none of these\n*.secret\n!kept.secret\nbuild\n'],
      [{ name: '.a-twin', type: 'link', linkname: '.dockerignore' }],
      [{ name: 'run', mode: 0o755 }, '#!/bin/sh\necho ran\n'],
      [{ name: 'dir/', type: 'directory', mode: 0o750 }],
      [{ name: 'dir/file' }, 'content\n'],
      [{ name: 'dir/twin', type: 'link', linkname: 'dir/file' }],
      [{ name: 'dir/a-twin', type: 'link', linkname: './dir/file' }],
      [{ name: 'build/shared' }, 'shared\n'],
      [{ name: 'dir/p', type: 'link', linkname: 'build/shared' }],
      [{ name: 'dir/q', type: 'link', linkname: 'dir/p' }],
      [{ name: 'dir/link', type: 'symlink', linkname: 'file' }],
      [{ name: 'out', type: 'symlink', linkname: '/etc/passwd' }],
      [{ name: 'password.secret' }, 'no'],
      [{ name: 'kept.secret' }, 'yes\n'],
      [{ name: 'build/big' }, 'x'.repeat(100_000)],
    ]);
    const gzip = gzipSync(tar);
    const dockerfile = `FROM ${base}\nCOPY . /context/\nWORKDIR /context\nCMD ./run; cat dir/link dir/twin dir/a-twin kept.secret; readlink out; stat -c %a dir; ls -A; cd dir; stat -c '%n %h' *; cat q; test p -ef q && echo same\n`;
    const response = await request(dockerfile, {
      buildContext: {
        ...inline(gzip),
        gzipDigest: digestOf(gzip),
        gzipSize: gzip.length,
        tarDigest: digestOf(tar),
      },
    });
    assert.equal(
      await run(response),
      'ran\ncontent\ncontent\ncontent\nyes\n/etc/passwd\n750\n.a-twin\n.dockerignore\ndir\nkept.secret\nout\nrun\n' +
        // Hard links stay links between the names that are copied.
        'a-twin 3\nfile 3\nlink 1\np 2\nq 2\ntwin 3\nshared\nsame\n',
    );
    // The same files packed in another way are the same build; other files are not.
    const again = await request(dockerfile, { buildContext: inline(gzipSync(tar, { level: 1 })) });
    assert.equal(again.buildId, response.buildId);
    const changed = await request(dockerfile, {
      buildContext: inline(gzipSync(await tarOf([[{ name: 'run', mode: 0o755 }, '#!/bin/sh\n']]))),
    });
    assert.notEqual(changed.targetImage.split(':').at(-1), response.targetImage.split(':').at(-1));
  });

  test('a Conda file beside a Dockerfile is conda.yml in the context', async () => {
    const condaFile = base64('dependencies: [bwa]\n');
    const dockerfile = `FROM ${base}\nCOPY --chown=0:0 conda.yml /tmp/conda.yml\nCMD cat /tmp/conda.yml /context/*\n`;
    const alone = await request(`${dockerfile}RUN mkdir /context && touch /context/a\n`, {
      condaFile,
    });
    assert.equal(await run(alone), 'dependencies: [bwa]\n');
    // Nor does a context hide it.
    const tar = await tarOf([
      [{ name: '.dockerignore' }, '*\n!a\n!z\n!.dockerignore\n'],
      [{ name: 'z', type: 'link', linkname: '.dockerignore' }],
      [{ name: 'conda.yml' }, 'not this one\n'],
      [{ name: 'a' }, 'from the context\n'],
      [{ name: 'b' }, 'ignored\n'],
    ]);
    const both = await request(`${dockerfile}COPY a b* z .dockerignore /context/\n`, {
      condaFile,
      buildContext: inline(gzipSync(tar)),
    });
    assert.equal(
      await run(both),
      'dependencies: [bwa]\nfrom the context\n*\n!a\n!z\n!.dockerignore\n',
    );
    const other = await request(`${dockerfile}RUN mkdir /context && touch /context/a\n`, {
      condaFile: base64('dependencies: [samtools]\n'),
    });
    assert.notEqual(other.targetImage.split(':').at(-1), alone.targetImage.split(':').at(-1));
  });

  test('it may be at a URL', async () => {
    files.set('/context.tar.gz', gzipSync(await tarOf([[{ name: 'a' }, 'from afar\n']])));
    const dockerfile = `FROM ${base}\nCOPY a /\nCMD cat /a\n`;
    const location = `http://${webHost()}/context.tar.gz`;
    assert.equal(
      await run(await request(dockerfile, { buildContext: { location } })),
      'from afar\n',
    );
  });

  test('an unacceptable context fails the build with a sentence', async () => {
    const tar = await tarOf([[{ name: 'null', type: 'character-device' }]]);
    const { targetImage, buildId } = await request(`FROM ${base}\nCOPY . /\n`, {
      buildContext: inline(gzipSync(tar)),
    });
    const response = await manifestOf(targetImage);
    assert.equal(response.status, 400);
    assert.match(await response.text(), /The build context contains something other than files/);
    const log = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs`)).text();
    assert.match(log, /The build failed: The build context contains something other/);
  });

  test('the fields of a context must be true and useful', async () => {
    const gzip = gzipSync(await tarOf([[{ name: 'a' }, 'a']]));
    const dockerfile = `FROM ${base}\n`;
    const refused = (more: object, message: RegExp) =>
      assert.rejects(request(dockerfile, more), message);
    await refused(
      { buildContext: { ...inline(gzip), tarDigest: digestOf('x') } },
      /400: .*buildContext\.tarDigest is sha256/,
    );
    await refused({ buildContext: inline(Buffer.from('x')) }, /400: .*buildContext is not a gzip/);
    await refused(
      { buildContext: { tarDigest: digestOf('x') } },
      /400: .*buildContext\.location must be an http/,
    );
    await assert.rejects(
      sluice.request({ containerImage: base, buildContext: inline(gzip) }),
      /400: .*'buildContext' is for builds/,
    );
    await assert.rejects(
      sluice.request({ containerImage: base, namedContexts: { a: 'b' } }),
      /400: .*'namedContexts' requires 'containerFile'/,
    );
    await refused({ namedContexts: { a: 1 } }, /400: .*'namedContexts\.a'/);
  });

  test('a sweep keeps the content of a build that has not started', async () => {
    await using busy = await startSluice({
      config: { ...configuration(), builds: { concurrent: 1 } },
    });
    const gzip = gzipSync(await tarOf([[{ name: 'a' }, 'still there\n']]));
    const gate = `until [ "$(wget -q -O - http://${webHost()}/gate)" = open ]; do sleep 0.1; done`;
    const first = await request(`FROM ${base}\nRUN ${gate}\n`, {}, busy);
    const second = await request(
      `FROM ${base}\nCOPY a /\nCMD cat /a\n`,
      { buildContext: inline(gzip) },
      busy,
    );
    const sweep = async () => {
      const args = ['gc', '--data', busy.data, '--json'];
      const result = await sluiceCommand(args, { SLUICE_SWEEP_GRACE: '0s' });
      const { removed } = JSON.parse(assertSuccess(result)) as { removed: { digest: string }[] };
      return removed.map(({ digest }) => digest);
    };
    assert.ok(!(await sweep()).includes(digestOf(gzip)));
    const status = await (await busy.fetch(`/v1alpha1/builds/${second.buildId}`)).json();
    assert.equal((status as { phase: string }).phase, 'queued', 'it was swept while it was needed');
    files.set('/gate', Buffer.from('open'));
    assert.equal(await run(second), 'still there\n');
    assert.ok((await sweep()).includes(digestOf(gzip)), 'it is not needed any more');
    assert.equal((await manifestOf(first.targetImage, busy)).status, 200);
  });

  test('a large directory is uploaded: only changed files are sent again, and the image has the same files', async () => {
    await using directory = await makeTempDir('large-context');
    const path = (name: string) => directory.join(name);
    for (let index = 0; index < largeFiles; index += 1) {
      const name = path(`context/d${index % 50}/f${index}`);
      await mkdir(dirname(name), { recursive: true });
      await writeFile(name, randomBytes(index % 200 === 0 ? largeBytes : smallBytes));
    }
    const twin = randomBytes(largeBytes);
    for (const name of ['twin-1', 'twin-2']) await writeFile(path(`context/${name}`), twin);
    await symlink('d1/f1', path('context/link'));
    await chmod(path('context/d1/f1'), 0o755);
    await link(path('context/d1/f1'), path('context/d3/hard'));
    await link(path('context/d3/f3'), path('outside'));
    await writeFile(path('context/.dockerignore'), 'd2\nDockerfile\n');
    const sums =
      'find . -type f | LC_ALL=C sort | xargs -n 500 sha256sum; find . -type f -perm 755; readlink link; stat -c %h d1/f1 d3/hard d3/f3';
    const dockerfile = `FROM ${base}\nCOPY . /context/\nWORKDIR /context\nCMD ${sums}\n`;
    await writeFile(path('context/Dockerfile'), dockerfile);
    const build = async (...options: string[]) => {
      const began = performance.now();
      const result = await sluiceCommand([
        'build',
        path('context'),
        '--server',
        sluice.url,
        ...options,
      ]);
      const name = assertSuccess(result).trim();
      const [, total = '', sent = ''] =
        /Build context: (.*) in \d+ files, (.*) sent/.exec(result.stderr) ?? [];
      return { name, total: bytesIn(total), sent: bytesIn(sent), ms: performance.now() - began };
    };
    // The files that a build copies if it reads the directory itself.
    const local = async () => {
      const { stdout } = await promisify(execFile)('sh', [
        '-c',
        `cd "$1" && rm -rf "$2" && cp -a . "$2" && cd "$2" && rm -rf d2 Dockerfile && ${sums}`,
        ...['sh', path('context'), path('copy')],
      ]);
      return stdout;
    };

    const first = await build('--await');
    assert.ok(first.total > largeFiles * smallBytes * 0.9);
    // The second twin is the first one for the server.
    assert.ok(first.sent >= first.total - largeBytes - 200_000, `${first.sent} of ${first.total}`);
    assert.ok(first.sent < first.total, `${first.sent} of ${first.total}`);
    assert.equal(assertSuccess(await runWithPodman(root, first.name)), await local());

    await writeFile(path('context/d1/f1'), 'changed');
    const second = await build('--await');
    assert.ok(second.sent < first.sent / 10, `${second.sent} of ${second.total} sent again`);
    assert.equal(assertSuccess(await runWithPodman(root, second.name)), await local());

    // The same content has the same key: nothing is built, and only the list is requested.
    const third = await build('--dry-run');
    assert.equal(JSON.parse(third.name).cached, true);
    assert.equal(third.sent, 0);
    const named = await sluiceCommand(['name', path('context'), '--server', sluice.url]);
    assert.equal(
      assertSuccess(named).trim().split(':').at(-1),
      JSON.parse(third.name).targetImage.split(':').at(-1),
    );
  });

  test('an uploaded context is accepted from its owner only', async () => {
    const asked = await sluice.fetch('/v1alpha1/contexts', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    });
    const { registry: host, repository, token } = (await asked.json()) as Record<string, string>;
    assert.match(repository ?? '', /^contexts\/networks\/[0-9a-f]{32}$/);
    const upload = (name: string) =>
      sluice.fetch(`/v2/${name}/blobs/uploads/`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}` },
      });
    assert.equal((await upload(repository ?? '')).status, 202);
    assert.equal((await upload('contexts/users/other')).status, 401);
    const ask = async (location: string) => {
      const body = { containerFile: base64(`FROM ${base}`), buildContext: { location } };
      return request(body.containerFile, body).then(
        () => 'taken',
        (error: Error) => error.message,
      );
    };
    const absent = `@${digestOf('absent')}`;
    assert.match(
      await ask(`oci://${host}/contexts/users/other${absent}`),
      /not in your repository/,
    );
    assert.match(await ask(`oci://ghcr.io/${repository}${absent}`), /not in your repository/);
    assert.match(await ask(`oci://${host}/${repository}:latest`), /without its digest/);
    assert.match(
      await ask(`oci://${host}/${repository}${absent}`),
      /expired here: upload it again/,
    );
  });

  test('named contexts replace images and stages', async () => {
    const dockerfile = [
      'FROM unreachable.invalid/tool:1 AS tool',
      'FROM node:24 AS build',
      'RUN false',
      'FROM node:24',
      'COPY --from=build /bin/entry /copied',
      'COPY --from=docker.io/library/alpine:latest /bin/busybox /box/busybox',
      'COPY --from=tool /bin/busybox /tool',
      'CMD ["/box/busybox", "ls", "/copied", "/tool"]',
    ].join('\n');
    const response = await request(dockerfile, {
      namedContexts: {
        'docker.io/library/node:24': base,
        build: other,
        alpine: base,
        'unreachable.invalid/tool:1': base,
      },
    });
    assert.equal(await run(response), '/copied\n/tool\n');
  });

  test('a replaced image is pulled with the rights of the caller', async () => {
    const named = (image: string) => ({ namedContexts: { 'node:24': image } });
    await assert.rejects(
      request('FROM node:24\n', named(`${closed.host}/corpus/busybox:oci`)),
      new RegExp(`400: .*base image ${closed.host}/corpus/busybox:oci is unavailable`),
    );
    // The replaced image is not checked any more.
    const replaced = `FROM ${closed.host}/corpus/busybox:oci\nCMD echo replaced\n`;
    const response = await request(replaced, {
      namedContexts: { [`${closed.host}/corpus/busybox:oci`]: base },
    });
    assert.equal(await run(response), 'replaced\n');
  });
});
