import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import {
  changeDefinition,
  type DefinitionRuntime,
} from '../../src/images/sif/runtime/definition-runtime.ts';
import { runtimeFiles } from '../../src/images/sif/runtime/runtime-files.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const definition = {
  ...{ text: 'Bootstrap: docker\nFrom: x\n', headers: {}, labels: {}, help: 'Help' },
  ...{ runscript: '#!/bin/sh\nown\n', environment: 'export A=own\n' },
};

test('the request takes precedence over a definition file', () => {
  const started = { ...definition, runscript: undefined };
  assert.deepEqual(changeDefinition(definition, { entrypoint: ['x'] }), started);
  assert.deepEqual(changeDefinition(definition, { cmd: ['x'] }), started);
  const set = changeDefinition(definition, { env: ["A=it's", 'no-name=x', 'B=1', 'B=2'] });
  const requestedEnvironment = `export A='it'"'"'s'\nexport B='2'\n`;
  assert.deepEqual(set, { ...definition, requestedEnvironment });
});

test('requested variables take precedence over those of %environment and of %post', async () => {
  await using directory = await makeTempDir('definition-change');
  const { environment: _, ...plain } = definition;
  /** What A is in the image, where the caller has one too. */
  const valueIn = async (own: DefinitionRuntime, postEnvironment?: string) => {
    const request = {
      ...{ config: { Env: ['A=asked'] }, architecture: 'amd64' as const, createdAt: 0 },
      ...{ definition: changeDefinition(own, { env: ['A=asked'] }), scripts: { postEnvironment } },
    };
    const folder = directory.join(String(Math.random()));
    await mkdir(folder);
    const scripts = new Map([['91-environment.sh', Buffer.from(postEnvironment ?? '')]]);
    for (const entry of runtimeFiles(request)) {
      const [, name] = /^\.singularity\.d\/env\/(.*)$/.exec(entry.path) ?? [];
      if (name !== undefined && entry.kind === 'file')
        scripts.set(name, Buffer.from(entry.content ?? ''));
    }
    for (const [name, script] of scripts) await writeFile(`${folder}/${name}`, script);
    const all = `for script in ${folder}/*.sh; do . $script; done; echo "$A"`;
    const env = { PATH: process.env.PATH, A: 'of the caller' };
    return execFileSync('sh', ['-c', all], { env }).toString().trim();
  };
  assert.equal(await valueIn(definition), 'asked');
  assert.equal(await valueIn(definition, 'export A=post\n'), 'asked');
  assert.equal(await valueIn(plain, 'export A=post\n'), 'asked');
  assert.equal(await valueIn(plain), 'of the caller');
});

test('fields without a request stay unchanged', () => {
  assert.deepEqual(changeDefinition(definition, {}), definition);
});
