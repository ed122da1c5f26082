import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import {
  configuredCredentials,
  configuredRegistries,
} from '../../src/server/config/read/registries.ts';
import { configSchema } from '../../src/server/config/settings-schema.ts';
import { settingsOf } from '../../src/upstream/registry-settings.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const publicUrl = new URL('http://127.0.0.1:9090');
const docker = (host: string, login: string) =>
  JSON.stringify({ auths: { [host]: { auth: Buffer.from(login).toString('base64') } } });

test("Docker Hub's three host names are one registry", () => {
  for (const name of ['docker.io', 'index.docker.io', 'registry-1.docker.io']) {
    const config = configSchema.parse({ registries: { [name]: { blobs: 'cache' } } });
    const registries = configuredRegistries(config, publicUrl);
    assert.equal(settingsOf(registries, 'docker.io').blobs, 'cache');
  }
});

test('a listed registry and its own host may be at a private address, an unlisted one may not', () => {
  const config = configSchema.parse({ registries: { 'r.internal': {} } });
  const registries = configuredRegistries(config, publicUrl);
  assert.equal(settingsOf(registries, 'r.internal').allowPrivateAddress, true);
  assert.equal(settingsOf(registries, 'other.internal').allowPrivateAddress, false);
  assert.equal(settingsOf(registries, '127.0.0.1:9090').allowPrivateAddress, true);
  assert.equal(settingsOf(registries, '127.0.0.1:9090').plainHttp, true);
});

test('credentials come from the configuration, then the variable, then the file; hosts must match exactly', async () => {
  await using directory = await makeTempDir('docker-config');
  const path = directory.join('config.json');
  await writeFile(path, docker('c.example', 'cid:3'));
  const config = configSchema.parse({
    dockerConfig: path,
    registries: { 'a.example': { username: 'ann', password: '1' } },
  });
  const registries = configuredRegistries(config, publicUrl);
  const variable = JSON.stringify({
    auths: {
      ...JSON.parse(docker('a.example', 'eve:9')).auths,
      ...JSON.parse(docker('b.example', 'bob:2')).auths,
    },
  });
  const credentials = configuredCredentials(registries, config, variable);
  const user = async (host: string) => {
    const found = await credentials(host);
    return found?.kind === 'password' ? found.username : undefined;
  };
  assert.equal(await user('a.example'), 'ann');
  assert.equal(await user('b.example'), 'bob');
  assert.equal(await user('c.example'), 'cid');
  assert.equal(await user('x.a.example'), undefined);
  assert.equal(await user('a.example:5000'), undefined);
});

test('incomplete credentials, a missing authority and a broken Docker file are refused without secrets', async () => {
  const half = configSchema.parse({ registries: { 'a.example': { username: 'ann' } } });
  assert.throws(
    () => configuredRegistries(half, publicUrl),
    /a\.example: 'username' and 'password'/,
  );
  const ca = configSchema.parse({ registries: { 'a.example': { ca: '/nowhere/ca.pem' } } });
  assert.throws(
    () => configuredRegistries(ca, publicUrl),
    /a\.example\.ca.*cannot be read: it does not exist/,
  );
  const config = configSchema.parse({});
  const registries = configuredRegistries(config, publicUrl);
  assert.throws(
    () => configuredCredentials(registries, config, '{"auths": "hunter2"'),
    (error: unknown) => error instanceof Error && !error.message.includes('hunter2'),
  );
});
