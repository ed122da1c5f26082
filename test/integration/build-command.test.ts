/** `sluice build`, `name` and `logs` with a running server and a real BuildKit, on a terminal and without one. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { bytesOf } from '../corpus/content.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { layerOf } from '../corpus/layer.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { runWithPodman } from '../world/clients.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type ServedRequest, type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { openTerminal } from '../world/terminal.ts';
import { assertSuccess } from './served.ts';

const program = fileURLToPath(new URL('../../bin/sluice.js', import.meta.url));

suite('sluice build', { concurrency: 2 }, () => {
  let registry: Registry;
  let buildkitd: Buildkitd;
  let sluice: Sluice;
  let root: Root;
  let directory: TempDir;
  let base: string;
  let web: Server;

  before(async () => {
    registry = await startRegistry();
    const { content } = await layerOf([{ name: 'a', content: 'from afar' }]);
    web = createServer((_, response) => response.end(bytesOf(content)));
    await new Promise<void>(resolve => web.listen(0, '127.0.0.1', resolve));
    base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
    buildkitd = await startBuildkitd();
    directory = await makeTempDir('build-command');
    sluice = await startSluice({
      config: {
        buildkit: [buildkitd.address],
        builds: { concurrent: 4 },
        layers: { maxInlineBytes: '300 KiB', privateHosts: [webHost()] },
        limits: { builds: { anonymous: 'off' }, bodyBytes: '1 MiB' },
        anonymous: { maxNetworkBytes: '3 MiB' },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
    root = await openRoot('forky');
  });
  after(async () => {
    await root?.close();
    await sluice?.stop();
    await directory?.remove();
    await buildkitd?.stop();
    web?.close();
    await registry?.stop();
  });

  const webHost = () => `127.0.0.1:${(web.address() as AddressInfo).port}`;
  const run = (...args: readonly string[]) => sluiceCommand(args, { SLUICE_SERVER: sluice.url });
  const terminal = (...args: readonly string[]) =>
    openTerminal([process.execPath, program, ...args], { SLUICE_SERVER: sluice.url });
  const project = async (
    name: string,
    files: Readonly<Record<string, string | Buffer>>,
  ): Promise<string> => {
    for (const [path, content] of Object.entries(files)) {
      const place = directory.join(name, path);
      await mkdir(dirname(place), { recursive: true });
      await writeFile(place, content);
    }
    return directory.join(name);
  };
  const manifestStatus = async (repository: string, image: string) => {
    const headers = {
      accept: 'application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json',
    };
    const url = `${registry.url}/v2/${repository}/manifests/${tagOf(image)}`;
    return (await fetch(url, { headers })).status;
  };
  const tagOf = (image: string) => image.trim().split(':').at(-1);
  const statusOf = async (id: string) =>
    (await (await sluice.fetch(`/v1alpha1/builds/${id}/status`)).json()) as { succeeded?: boolean };

  test('a directory is its build context, and its name is known without a server', async () => {
    const place = await project('app', {
      Dockerfile: 'FROM node:24\nCOPY . /app\nWORKDIR /app\nCMD ./run; ls -A; readlink link\n',
      '.dockerignore': 'node_modules\n**/*.log\n!keep.log\n',
      run: '#!/bin/sh\necho ran\n',
      'keep.log': 'kept',
      'a.log': 'ignored',
      'node_modules/x/index.js': 'ignored',
      'lib/b.log': 'ignored',
    });
    await chmod(`${place}/run`, 0o755);
    await symlink('run', `${place}/link`);
    const options = ['--build-context', `node:24=docker-image://${base}`, place];
    const built = await run('build', ...options, '--await');
    const image = assertSuccess(built).trim();
    assert.match(built.stderr, /^#\d+ \[1\/3\] FROM|\n#\d+ \[1\/3\] FROM|\[context node:24\]/);
    assert.match(built.stderr, /#\d+ DONE \d+\.\d+s\n/);
    assert.ok(!built.stderr.includes('\x1b'), 'no control characters without a terminal');
    assert.equal(
      assertSuccess(await runWithPodman(root, image)),
      'ran\n.dockerignore\nDockerfile\nkeep.log\nlib\nlink\nrun\nrun\n',
    );
    assert.equal(tagOf(assertSuccess(await run('name', ...options))), tagOf(image));
    assert.equal(tagOf(assertSuccess(await run('build', ...options))), tagOf(image));
    assert.notEqual(
      tagOf(assertSuccess(await run('name', ...options.slice(2), '-f', `${place}/Dockerfile`))),
      tagOf(image),
    );
    await writeFile(`${place}/a.log`, 'changed, but ignored');
    assert.equal(tagOf(assertSuccess(await run('name', ...options))), tagOf(image));
    await writeFile(`${place}/keep.log`, 'changed');
    assert.notEqual(tagOf(assertSuccess(await run('name', ...options))), tagOf(image));
  });

  test('a frozen image has the predicted name', async () => {
    const layer = await layerOf([{ name: 'added', content: 'layer' }]);
    const place = await project('frozen', {
      'docker/Dockerfile': `FROM ${base}\nCOPY a /a\n`,
      a: 'a',
      'config.json': JSON.stringify({
        env: ['A=1'],
        cmd: ['cat', '/a', '/added'],
        layers: [{ location: `data:${bytesOf(layer.content).toString('base64')}` }],
      }),
    });
    const options = [
      ...['-f', `${place}/docker/Dockerfile`, place, '--container-config', `${place}/config.json`],
      ...['--freeze', '--push-to', `${registry.host}/team/frozen`],
    ];
    const name = assertSuccess(await run('name', ...options)).trim();
    assert.equal(assertSuccess(await run('build', ...options, '--await')).trim(), name);
    assert.match(name, new RegExp(`^${registry.host}/team/frozen:[0-9a-f]{32}$`));
    const other = options.filter(word => word !== '--freeze');
    assert.notEqual(assertSuccess(await run('name', ...other)).trim(), name);
    assert.equal(await manifestStatus('team/frozen', name), 200);
    const sif = [...options, '--format', 'sif'];
    const { targetImage } = JSON.parse(assertSuccess(await run('build', ...sif, '--dry-run')));
    assert.match(targetImage, /^oras:/);
    assert.equal(assertSuccess(await run('name', ...sif)).trim(), targetImage);
  });

  test('build arguments and tests of definition files change the name', async () => {
    const place = await project('defined', {
      'image.def': `From: {{ IMAGE }}\nBootstrap: docker\n%test\n  true\n`,
    });
    const options = [
      ...['-f', `${place}/image.def`, '--freeze', '--push-to', `${registry.host}/team/defined`],
      ...['--format', 'sif', '--build-arg', `IMAGE=${base}`],
    ];
    const name = assertSuccess(await run('name', ...options)).trim();
    const { targetImage } = JSON.parse(assertSuccess(await run('build', ...options, '--dry-run')));
    assert.equal(targetImage, name);
    const others = [
      [...options, '--no-test'],
      [...options, '--build-arg', 'OTHER=1'],
    ];
    for (const other of others) {
      assert.notEqual(assertSuccess(await run('name', ...other)).trim(), name);
    }
    const usual = [...options, '--compression', 'gzip:6'];
    assert.equal(assertSuccess(await run('name', ...usual)).trim(), name);
    const { stderr } = await run('name', ...options, '--compression', 'gzip:10');
    assert.match(stderr, /'buildCompression.level' can be 1 to 9 for gzip/);
  });

  test('an existing image is frozen when the command ends, and not requested before', async () => {
    const place = ['--freeze', '--push-to', `${registry.host}/team/asked`];
    const options = ['request', base, '--env', 'ASKED=1', ...place];
    const { targetImage } = JSON.parse(assertSuccess(await run(...options, '--dry-run')));
    assert.equal(await manifestStatus('team/asked', targetImage), 404);
    assert.equal(assertSuccess(await run(...options, '--await')).trim(), targetImage);
    assert.equal(await manifestStatus('team/asked', targetImage), 200);
  });

  test('a terminal shows the progress of the steps, and the outcome', async () => {
    const place = await project('live', {
      Dockerfile: `FROM ${base}\nCOPY a /a\nRUN for i in 1 2 3 4; do echo line-$i; sleep 0.5; done\n`,
      a: randomBytes(8).toString('hex'),
    });
    const shown = terminal('build', place, '--await');
    const frames = new Set<string>();
    const watching = setInterval(() => frames.add(shown.screen().join('\n')), 100);
    assert.equal(await shown.exitCode, 0, shown.output());
    clearInterval(watching);
    const running = [...frames].filter(frame => /^\[\+\] Building/m.test(frame));
    assert.ok(running.length > 3, [...frames].join('\n---\n'));
    assert.ok(
      running.some(frame => /\[3\/3\] RUN for.* {2,}\d\.\ds\n => => line-\d/.test(frame)),
      running.join('\n---\n'),
    );
    const [page = '', ...last] = shown.screen();
    assert.match(page, /^Page of the build: http:.*\/view\/builds\/\w+$/);
    assert.match(last[0] ?? '', /^\[\+\] Built in \d+\.\ds: \d+ steps, \d of them cached$/);
    const steps = last.filter(line => line.startsWith(' => '));
    assert.equal(steps.filter(line => /\[2\/3\] COPY a \/a/.test(line)).length, 1, last.join('\n'));
    assert.equal(steps.filter(line => / => \[3\/3\] RUN/.test(line)).length, 1, last.join('\n'));
    assert.ok(steps.every(line => line.length <= 80));
    assert.ok(!last.join('\n').includes('line-4'), 'the log of a finished step is not kept');
    assert.match(last.at(-2) ?? '', /^127\.0\.0\.1:\d+\/ct\/\w+\/builds:[0-9a-f]{32}$/);
    const hidden = shown.output().lastIndexOf('\x1b[?25l');
    assert.ok(shown.output().indexOf('\x1b[?25h', hidden) > 0, 'the cursor is there again');

    const cached = terminal('build', place, '--await', '--plain');
    assert.equal(await cached.exitCode, 0);
    assert.match(cached.output(), /^127\.0\.0\.1:\d+\/ct\/\w+\/builds:[0-9a-f]{32}\r\n$/);
  });

  test('a failed build shows its last output, also to later callers', async () => {
    const place = await project('failing', {
      Dockerfile: `FROM ${base}\nRUN echo it goes wrong; exit 42\n`,
    });
    const shown = terminal('build', place, '--await');
    assert.equal(await shown.exitCode, 1);
    const screen = shown.screen().join('\n');
    assert.match(screen, /^\[\+\] Failed after/m);
    assert.match(screen, / => ERROR \[2\/2\] RUN echo it goes wrong/);
    assert.match(screen, /\n[\d.]+ it goes wrong\n/);
    assert.match(screen, /\nThe build failed: .*exit code 42/);
    const later = await run('build', place, '--await');
    assert.equal(later.code, 1);
    assert.match(later.stderr, /The build failed: .*exit code 42/);
    const brief = await run('build', place);
    assert.equal(brief.code, 1);
    assert.match(brief.stderr, /^The build failed\. To see why: sluice logs \w+$/m);
    const forecast = await run('build', place, '--dry-run');
    assert.equal(JSON.parse(assertSuccess(forecast)).containerFile.split('\n')[0], `FROM ${base}`);
  });

  test('Ctrl-C asks whether to cancel the build', async () => {
    const place = await project('cancelled', {
      Dockerfile: `FROM ${base}\nRUN echo begun; sleep 60\n`,
    });
    const left = terminal('build', place, '--await');
    await eventually('it has started', () => left.output().includes('=> begun'), 60_000);
    left.type('\x03');
    await eventually('it asks', () => left.output().includes('Cancel the build? [y/N]'));
    left.type('y\r');
    assert.equal(await left.exitCode, 130, left.output());
    assert.match(left.output(), /The build was cancelled/);
    assert.doesNotMatch(left.output(), /The build continues/);
    const failed = await run('build', place, '--await');
    assert.deepEqual(
      [failed.code, failed.stdout],
      [1, ''],
      'no name of an image that does not exist',
    );
  });

  test('Ctrl-C leaves the build running, and its log can be followed again', async () => {
    const place = await project('left', {
      Dockerfile: `FROM ${base}\nRUN echo begun; sleep 20; echo ended-at-last\n`,
    });
    const left = terminal('build', place, '--await');
    await eventually('it has started', () => left.output().includes('=> begun'), 60_000);
    left.type('\x03');
    await eventually('it asks', () => left.output().includes('Cancel the build? [y/N]'));
    left.type('\x03');
    assert.equal(await left.exitCode, 130, left.output());
    const [, id = ''] =
      /The build continues\. To follow the build: sluice logs -f (\w+)/.exec(left.output()) ?? [];
    assert.match(id, /^[0-9a-f]{32}_[0-9]+$/, left.output());
    assert.equal((await statusOf(id)).succeeded, undefined);
    const [plain, live] = [run('logs', '-f', id), terminal('logs', '-f', id)];
    const followed = assertSuccess(await plain);
    assert.match(followed, /begun[\s\S]*ended-at-last[\s\S]*DONE/);
    assert.equal(await live.exitCode, 0);
    assert.match(live.screen()[1] ?? '', /^\[\+\] Built in/);
    assert.equal(assertSuccess(await run('logs', id)), followed, 'the same text');
  });

  test('a lost server is reported, with a way to continue', async () => {
    const place = await project('away', { Dockerfile: `FROM ${base}\nRUN sleep 30\n` });
    await using doomed = await startSluice({
      config: {
        buildkit: [buildkitd.address],
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
    const building = sluiceCommand(['build', place, '--await'], { SLUICE_SERVER: doomed.url });
    const isAsked = ({ method, status }: ServedRequest) => method === 'POST' && status === 200;
    await eventually('it is requested', async () => (await doomed.requests()).some(isAsked));
    await sleep(500);
    await doomed.kill();
    const { code, stderr } = await building;
    assert.equal(code, 1);
    assert.match(
      stderr,
      /No response from .*\. To follow the build: sluice logs -f [0-9a-f]+_[0-9]+/,
    );
  });

  test('a context that is too large for the request is uploaded; one above the limit is refused with its largest entries', async () => {
    const place = await project('large', {
      Dockerfile: `FROM ${base}\nCOPY src /src\n`,
      'data/raw/a.bin': randomBytes(400_000),
      'src/a': 'a',
    });
    assertSuccess(await run('build', place, '--await'));
    await writeFile(`${place}/data/raw/b.bin`, randomBytes(3_000_000));
    const tooLarge = await run('build', place);
    assert.equal(tooLarge.code, 1);
    assert.match(tooLarge.stderr, /anonymous\.maxNetworkBytes/);
    assert.match(
      tooLarge.stderr,
      /has 3\.4 MB in 4 files\. The largest entries:\n +3\.4 MB {2}data\/raw\/\n/,
    );
    assert.match(tooLarge.stderr, /\.dockerignore/);
    await writeFile(`${place}/.dockerignore`, 'data\n');
    assertSuccess(await run('build', place, '--await'));
  });

  test('a context can be the URL of a tar.gz file, with the Dockerfile named', async () => {
    const { code, stderr } = await run('build', 'https://example.com/context.tar.gz');
    assert.deepEqual([code, /-f FILE/.test(stderr)], [2, true], stderr);
    const place = await project('remote', { Dockerfile: `FROM ${base}\nCOPY a /a\nCMD cat /a\n` });
    const options = ['-f', `${place}/Dockerfile`, `http://${webHost()}/context.tar.gz`];
    const image = assertSuccess(await run('build', ...options, '--await')).trim();
    assert.equal(assertSuccess(await runWithPodman(root, image)), 'from afar');
    assert.equal(tagOf(assertSuccess(await run('name', ...options))), tagOf(image));
  });

  test('an invalid command line is reported', async () => {
    const place = await project('wrong', {
      ...{ Dockerfile: 'FROM scratch\n', bad: '[]', odd: '{"env": "A=b"}' },
    });
    for (const [args, wording] of [
      [[], /Specify what to build/],
      [[place, '.'], /Expected one build context/],
      [[place, '--build-context', 'a=../b'], /expected NAME=docker-image:\/\/IMAGE/],
      [[place, '--build-context', 'A B=docker-image://x'], /namedContexts\.A B/],
      [[place, '--build-arg', 'A B=1'], /--build-arg A B=1: expected NAME=VALUE/],
      [[place, '--compression', 'xz'], /--compression xz: expected gzip, zstd/],
      [[place, '--keep-base-layers'], /--keep-base-layers requires --compression/],
      [
        [place, '--compression', 'zstd:23'],
        /'buildCompression.level': can be a whole number from 0 to 22/,
      ],
      [
        [place, '--build-arg', 'BUILDKIT_SYNTAX=1'],
        /'buildArgs\.BUILDKIT_SYNTAX': only this server/,
      ],
      [[place, '--label', 'a'], /--label a: expected NAME=VALUE/],
      [[place, '--secret', 'id=a,src=/no/file'], /--secret id=a: .*no such file/],
      [[place, '--no-test'], /--no-test is for Singularity definition files/],
      [[place, '--container-config', `${place}/bad`], /bad is not a JSON object/],
      [[place, '--container-config', `${place}/odd`], /'containerConfig\.env': expected array/],
      [[place, '--format', 'tar'], /expected docker or sif/],
      [[place, '--freeze', '--server', 'http://sluice.test'], /--freeze requires --push-to/],
      [[`${place}/Dockerfile`], /Dockerfile is neither a directory|Cannot read/],
      [['-f', `${place}/nothing`, place], /Cannot read .*nothing/],
    ] as const) {
      const { code, stderr } = await run('name', ...args);
      assert.equal(code, 2, `${args.join(' ')}: ${stderr}`);
      assert.match(stderr, wording, args.join(' '));
    }
    assert.match(
      assertSuccess(await run('build', '--help')),
      /-f, --file FILE[\s\S]*--build-context/,
    );
  });
});
