/** Definition files that begin with a Singularity image in a registry or in the build context. */
import assert from 'node:assert/strict';
import {
  chmod,
  copyFile,
  mkdir,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { readSif } from '../../src/images/sif/format/read-sif.ts';
import { digestOf } from '../../src/oci/digest.ts';
import type { Pushed } from '../corpus/corpus.ts';
import type { Apptainer } from '../world/apptainer.ts';
import type { Registry } from '../world/registry.ts';
import type { Sluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { assertSuccess } from './served.ts';
import { type SifWorld, startSifWorld } from './sif-world.ts';

suite('definition files that begin with a Singularity image', { concurrency: 1 }, () => {
  let world: SifWorld;
  let open: Registry;
  let closed: Registry;
  let sluice: Sluice;
  let apptainer: Apptainer;
  let images: Map<string, Pushed>;
  /** The Singularity image, in the registry that requires a login, and on the disk. */
  let base: string;
  let file: string;

  before(async () => {
    world = await startSifWorld(['busybox:oci']);
    ({ open, closed, images, apptainer, sluice } = world);
    const target = await build(baseDefinition(), `${closed.host}/sif/base`);
    base = target.replace('oras://', '');
    file = apptainer.join('root', 'home', 'base.sif');
    const env = { APPTAINER_DOCKER_USERNAME: 'tester', APPTAINER_DOCKER_PASSWORD: 'sesame' };
    await run(['pull', '--no-https', file, target], env);
  });
  after(async () => {
    await world?.[Symbol.asyncDispose]();
  });

  const baseDefinition = () =>
    [
      ...['Bootstrap: docker', `From: ${images.get('busybox:oci')?.reference}`],
      ...['%post', '  echo "export POSTED=base" >> $APPTAINER_ENVIRONMENT', '  mkdir -p /opt/a'],
      ...['  echo shared > /opt/a/one && ln /opt/a/one /opt/a/two && ln -s one /opt/a/three'],
      ...['  chmod 4711 /opt/a/one', '%environment', '  export FROM_BASE=yes'],
      ...['%runscript', '  echo "base run $FROM_BASE $FROM_ONE" "$@"', '%startscript', '  sleep 3'],
      ...['%test', '  echo base test', '%help', '  Help of the base.', '%labels'],
      ...['  Author Base', '  Kept yes', ''],
    ].join('\n');

  const run = async (args: readonly string[], env = {}) =>
    assertSuccess(await apptainer.run(args, { env }));

  const request = (definition: string, buildRepository: string, containerPlatform?: string) =>
    sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        ...{ format: 'sif', freeze: true, buildRepository, containerPlatform },
        containerFile: Buffer.from(definition).toString('base64'),
      }),
    });

  const outcome = async (definition: string, repository: string, platform?: string) => {
    const response = await request(definition, repository, platform);
    const text = await response.text();
    assert.equal(response.status, 200, text);
    const { targetImage, buildId } = JSON.parse(text) as { targetImage: string; buildId: string };
    const log = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
    const status = await (await sluice.fetch(`/v1alpha1/builds/${buildId}`)).text();
    const { succeeded } = JSON.parse(status) as { succeeded: boolean };
    return { targetImage, log, succeeded, reason: status };
  };

  const build = async (definition: string, repository = `${open.host}/sif/made`) => {
    const { targetImage, log, succeeded } = await outcome(definition, repository);
    assert.ok(succeeded, log);
    return targetImage;
  };

  /** Returns the output of `apptainer inspect`, without parts that differ between builds. */
  const inspected = async (sif: string) => {
    const { data } = JSON.parse(await run(['inspect', '--all', sif])) as {
      data: { attributes: Record<string, unknown> };
    };
    const { labels, deffile: _, ...attributes } = data.attributes;
    const differing = /(?:build-date|apptainer\.version|deffile\.(?:bootstrap|from))$/;
    const kept = Object.entries(labels as object).filter(([name]) => !differing.test(name));
    return { ...attributes, labels: Object.fromEntries(kept) };
  };

  for (const [name, sections] of Object.entries({
    'unspecified data stays as in the base': '%labels\n  Author One\n  New 1\n',
    'specified data is added, or replaces that of the base': [
      ...['%environment', '  export FROM_ONE=too', '%runscript', '  echo "own $FROM_BASE"'],
      ...['%startscript', '  sleep 4', '%test', '  echo own test', '%help', '  Own help.', ''],
    ].join('\n'),
  })) {
    test(`as apptainer build: ${name}`, async () => {
      const theirs = apptainer.join('root', 'home', 'theirs.sif');
      const ours = apptainer.join('root', 'home', 'ours.sif');
      await Promise.all([theirs, ours].map(path => rm(path, { force: true })));
      await writeFile(
        apptainer.join('own.def'),
        `Bootstrap: localimage\nFrom: ${file}\n${sections}`,
      );
      // Without --force it keeps labels and help of the base.
      await run(['build', '--notest', theirs, apptainer.join('own.def')]);
      const target = await build(`Bootstrap: oras\nFrom: ${base}\n${sections}`);
      await run(['pull', '--no-https', ours, target]);
      assert.deepEqual(await inspected(ours), await inspected(theirs));
      for (const args of [
        ['run', 'a b'],
        ['test'],
        ['run-help'],
        ['exec', 'sh', '-c', 'echo $POSTED $FROM_BASE $FROM_ONE $PATH'],
        ['exec', '/bin/busybox', 'find', '/.singularity.d', '/opt', '-type', 'f'],
        ['exec', 'sh', '-c', 'cat /.singularity.d/bootstrap_history/*'],
      ] as const) {
        const [command, ...rest] = args;
        const [one, other] = [
          await run([command, ours, ...rest]),
          await run([command, theirs, ...rest]),
        ];
        assert.deepEqual(withoutAppScripts(one), withoutAppScripts(other), args.join(' '));
      }
    });
  }

  /** Lines without the scripts that Apptainer makes for images without apps as well. */
  const withoutAppScripts = (text: string) =>
    text
      .split('\n')
      .filter(line => !/\/env\/(?:01-base|94-appsbase|95-apps)\.sh$/.test(line))
      .sort();

  test('%post runs in the base, with its variables; links and modes are unchanged', async () => {
    const target = await build(
      [
        ...['Bootstrap: localimage', `From: oras://${base}`, 'Stage: one', '%post'],
        ...['  echo "$FROM_BASE $POSTED" > /made', '  stat -c "%a %h" /opt/a/one >> /made'],
        ...['  readlink /opt/a/three >> /made; cat /opt/a/three >> /made', ''],
        ...['Bootstrap: oras', `From: ${base}`, '%files from one', '  /made /copied', ''],
      ].join('\n'),
    );
    assert.equal(
      await run(['exec', '--no-https', target, 'cat', '/copied']),
      'yes base\n4711 2\none\nshared\n',
    );
    assert.equal(await run(['run', '--no-https', target, 'x']), 'base run yes  x\n');
  });

  test('a pushed file on this server is a base for callers who may pull it', async () => {
    const env = { APPTAINER_DOCKER_USERNAME: 'admin', APPTAINER_DOCKER_PASSWORD: 'secret' };
    for (const repository of ['public/base', 'private/base']) {
      await run(['push', '--no-https', file, `oras://${sluice.host}/${repository}:1`], env);
    }
    const own = (repository: string) =>
      `Bootstrap: localimage\nFrom: ${sluice.host}/${repository}:1\n%labels\n  On own\n`;
    const target = await build(own('public/base'));
    assert.equal(await run(['run', '--no-https', target, 'x']), 'base run yes  x\n');
    const closed = await request(own('private/base'), `${open.host}/sif/made`);
    assert.equal(closed.status, 400);
    assert.match(await closed.text(), /The base image .*private\/base:1 is unavailable/);
  });

  /** Builds a definition file with a directory as its context, by the command line. */
  const buildWith = (context: string, definition: string) =>
    sluiceCommand(
      [
        ...['build', '--file', '-', context, '--server', sluice.url, '--format', 'sif', '--freeze'],
        ...['--push-to', `${open.host}/sif/made`, '--await'],
      ],
      {},
      definition,
    );

  test('a SIF file in the build context is a base, also through a link', async () => {
    const context = apptainer.join('context');
    await mkdir(join(context, 'images'), { recursive: true });
    await copyFile(file, join(context, 'images/base.sif'));
    await symlink('images/base.sif', join(context, 'newest.sif'));
    await writeFile(join(context, 'added'), 'added\n');
    const text = [
      ...['Bootstrap: localimage', 'From: ./newest.sif', 'Stage: one', '%files', '  added /added'],
      ...['%post', '  cat /opt/a/three /added > /made', ''],
      ...['Bootstrap: localimage', 'From: images/base.sif', '%files from one', '  /made', ''],
    ].join('\n');
    const target = assertSuccess(await buildWith(context, text)).trim();
    assert.equal(await run(['exec', '--no-https', target, 'cat', '/made']), 'shared\nadded\n');
    assert.equal(await run(['run', '--no-https', target, 'x']), 'base run yes  x\n');
  });

  test('a file of the build context that is not a usable SIF file is refused with its name', async () => {
    const context = apptainer.join('unusable');
    await mkdir(context);
    const sif = await readFile(file);
    const lying = Buffer.from(sif);
    // The size of the file system, far beyond the end of the file.
    const { squashfs } = await readSif(async (offset, length) =>
      sif.subarray(offset, offset + length),
    );
    const size = Buffer.alloc(8);
    size.writeBigInt64LE(BigInt(squashfs?.size ?? 0));
    lying.writeBigInt64LE(2n ** 50n, sif.indexOf(size));
    await writeFile(join(context, 'lying.sif'), lying);
    await writeFile(join(context, 'text.sif'), 'no SIF\n'.repeat(1000));
    await symlink('../../base.sif', join(context, 'above.sif'));
    for (const [path, reason] of [
      ['lying.sif', /cannot be a base: /],
      ['text.sif', /cannot be a base: This is not a SIF file/],
      ['above.sif', /is a link to something that is not in the build context/],
    ] as const) {
      const { code, stderr } = await buildWith(context, `Bootstrap: localimage\nFrom: ${path}\n`);
      assert.notEqual(code, 0, path);
      assert.match(stderr, new RegExp(`The file '${path}' of the build context ${reason.source}`));
    }
  });

  test('files are copied into a base without a shell as by apptainer build, or refused with the reason', async () => {
    const context = apptainer.join('shellless');
    for (const path of ['made/a', 'made/b', 'extra/c', 'extra/d']) {
      await mkdir(join(context, path, '..'), { recursive: true });
      await writeFile(join(context, path), path);
    }
    await symlink('c', join(context, 'extra/link'));
    await chmod(join(context, 'extra/d'), 0o6777);
    const base = 'Bootstrap: scratch\n%files\n  made/a /opt/a\n  made/b /opt/inner/b\n';
    const built = assertSuccess(await buildWith(context, base)).trim();
    const files = ['extra/c', 'extra/c /opt', 'extra/link /opt/a', '{extra/d,made/a} /new/'];
    const text = (header: string, stage: string) =>
      [
        ...['Bootstrap: docker', `From: ${stage}`, 'Stage: one', ''],
        ...[
          header,
          '%files',
          ...files,
          '%files from one',
          '/bin/busybox',
          '/bin/sh /opt/inner',
          '',
        ],
      ].join('\n');
    const image = images.get('busybox:oci')?.reference ?? '';
    const ours = text(`Bootstrap: oras\nFrom: ${built.replace('oras://', '')}`, image);
    const [own, theirs] = ['shellless-own', 'shellless-theirs'].map(name => apptainer.join(name));
    const made = await buildWith(context, ours);
    const target = assertSuccess(made).trim();
    assert.match(made.stderr, /A base image has no \/bin\/sh: its files are copied without one/);
    await run(['build', '--sandbox', '--no-https', String(own), target]);
    await run(['pull', '--no-https', apptainer.join('shellless.sif'), built]);
    const local = `Bootstrap: localimage\nFrom: ${apptainer.join('shellless.sif')}`;
    await writeFile(apptainer.join('shellless.def'), text(local, image));
    const args = ['build', '--sandbox', '--no-https', String(theirs)];
    const options = { cwd: context };
    assertSuccess(await apptainer.run([...args, apptainer.join('shellless.def')], options));
    assert.deepEqual(await filesIn(String(own)), await filesIn(String(theirs)));

    const from = `Bootstrap: oras\nFrom: ${built.replace('oras://', '')}`;
    for (const [lines, message] of [
      [
        '%files\n  extra /opt/',
        /line 4: 'extra' is not a file, and the base image has no \/bin\/sh/,
      ],
      ['%files\n  extra/* /opt/', /the base image has no \/bin\/sh, which runs this step/],
      ['%files\n  made/a /a\n%post\n  true', /the base image has no \/bin\/sh/],
    ] as const) {
      const { code, stderr } = await buildWith(context, `${from}\n${lines}\n`);
      assert.notEqual(code, 0, lines);
      assert.match(stderr, message, lines);
    }
    const folder = text(from, image).replace('/bin/busybox', '/bin');
    const { stderr } = await buildWith(context, folder);
    assert.match(stderr, /line 13: '\/bin' is not a file, and the base image has no \/bin\/sh/);
    assert.match(stderr, /'%files' of the definition file ended with exit code 1/);
  });

  /** Returns the files of a tree with their modes and contents, without Apptainer's own. */
  const filesIn = async (tree: string) => {
    const entries = await readdir(tree, { recursive: true, withFileTypes: true });
    const paths = entries
      .filter(entry => entry.isFile())
      .map(one => join(one.parentPath, one.name));
    const shown = paths.map(async path => {
      const mode = ((await stat(path)).mode & 0o7777).toString(8);
      return `${path.slice(tree.length)} ${mode} ${digestOf(await readFile(path))}`;
    });
    const all = await Promise.all(shown);
    return all.filter(line => !/^\/(?:\.singularity\.d|etc|dev)\//.test(line)).sort();
  };

  test('an unusable base is refused with the reason', async () => {
    const missing = await request(`Bootstrap: oras\nFrom: ${open.host}/no:1\n`, `${open.host}/x`);
    assert.equal(missing.status, 400);
    assert.match(await missing.text(), /The base image .*\/no:1 is unavailable/);
    const path = await request(
      'Bootstrap: localimage\nFrom: images/base.sif\n',
      `${open.host}/sif/x`,
    );
    assert.equal(path.status, 400);
    assert.match(
      await path.text(),
      new RegExp(`line 2: .*apptainer push base.sif oras://${sluice.host}/`),
    );
    const docker = await request(`Bootstrap: docker\nFrom: ${base}\n`, `${open.host}/sif/x`);
    assert.equal(docker.status, 400);
    assert.match(await docker.text(), /it is a Singularity image: .* 'Bootstrap: oras'/);
    const image = images.get('busybox:oci')?.reference;
    const plain = await build(
      `Bootstrap: localimage\nFrom: docker://${image}\n%runscript\n  echo plain\n`,
    );
    assert.equal(await run(['run', '--no-https', plain]), 'plain\n');
    const arm = await outcome(
      `Bootstrap: oras\nFrom: ${base}\n%labels\n  For arm64\n`,
      `${open.host}/sif/arm`,
      'linux/arm64',
    );
    assert.equal(arm.succeeded, false);
    assert.match(arm.log + arm.reason, /is for amd64, and the build is for arm64: set/);
  });
});
