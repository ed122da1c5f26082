import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keysDocument, readKeys } from '../../src/platform/credentials/keys-document.ts';
import { loginFor } from '../../src/platform/credentials/registry-login.ts';
import type { CredentialKeys } from '../../src/platform/workflow-platform.ts';

const keyFile = JSON.stringify({ type: 'service_account', private_key: '-----BEGIN' });
const keyFile64 = Buffer.from(keyFile).toString('base64');
const ecrHost = '123456789012.dkr.ecr.eu-west-1.amazonaws.com';
const role = 'arn:aws:iam::123456789012:role/puller';

const account = (username: string, password: string, kind = 'container-reg') =>
  ({ kind, username, password, registry: undefined }) as CredentialKeys;
const login = (username: string, password: string) => ({ kind: 'password', username, password });

test('user names and tokens are sent in the form that each registry expects', () => {
  for (const [host, keys, expected] of [
    ['docker.io', account('lab', 'dckr_pat'), login('lab', 'dckr_pat')],
    ['docker.io', account('', 'dckr_pat'), undefined],
    ['registry.example', account('robot', 'pw'), login('robot', 'pw')],
    ['registry.example', account('robot', ''), undefined],
    ['registry.example', account('<token>', 'id'), { kind: 'identity-token', token: 'id' }],
    ['registry.example', account('u', keyFile), login('u', keyFile)],
    ['ghcr.io', account('octo', 'ghp'), login('octo', 'ghp')],
    ['ghcr.io', account('', 'ghp'), login('token', 'ghp')],
    ['ghcr.io', account('octo', 'ghp', 'github'), login('octo', 'ghp')],
    ['registry.gitlab.com', account('deploy', 'glpat'), login('deploy', 'glpat')],
    ['registry.gitlab.com', account('', 'glpat', 'gitlab'), login('oauth2', 'glpat')],
    ['quay.io', account('lab+robot', 'pw'), login('lab+robot', 'pw')],
    ['quay.io', account('', 'oauth'), login('$oauthtoken', 'oauth')],
    ['lab.azurecr.io', account('lab', 'pw'), login('lab', 'pw')],
    ['lab.azurecr.io', account('', 'jwt'), login('00000000-0000-0000-0000-000000000000', 'jwt')],
    ['lab.azurecr.io', { kind: 'azure', clientId: 'c', clientSecret: 's' }, login('c', 's')],
    ['registry.example', { kind: 'azure', clientId: 'c', clientSecret: 's' }, undefined],
    ['europe-docker.pkg.dev', account('_json_key', keyFile), login('_json_key', keyFile)],
    ['europe-docker.pkg.dev', account('', keyFile), login('_json_key', keyFile)],
    ['eu.gcr.io', account('_json_key_base64', keyFile64), login('_json_key_base64', keyFile64)],
    ['gcr.io', account('', keyFile64), login('_json_key_base64', keyFile64)],
    ['gcr.io', account('', 'ya29.x'), login('oauth2accesstoken', 'ya29.x')],
    ['gcr.io', { kind: 'google', data: keyFile }, login('_json_key', keyFile)],
    ['gcr.io.evil.example', { kind: 'google', data: keyFile }, undefined],
    [ecrHost, account('AWS', 'already-a-password'), login('AWS', 'already-a-password')],
    ['registry.example', { kind: 'other', discriminator: 'k8s' }, undefined],
  ] as const) {
    assert.deepEqual(loginFor(host, keys), expected, `${host} ${JSON.stringify(keys)}`);
  }
});

test('for ECR, a user name is an access key or a role', () => {
  const none = {
    accessKey: undefined,
    secretKey: undefined,
    assumeRoleArn: undefined,
    externalId: undefined,
  };
  const aws = { kind: 'aws', ...none } as const;
  for (const [keys, expected] of [
    [account('AKIA1', 'secret'), { ...none, accessKey: 'AKIA1', secretKey: 'secret' }],
    [account(role, 'external'), { ...none, assumeRoleArn: role, externalId: 'external' }],
    [account(role, ''), { ...none, assumeRoleArn: role }],
    [
      { ...aws, assumeRoleArn: role, externalId: 'e' },
      { ...none, assumeRoleArn: role, externalId: 'e' },
    ],
  ] as const) {
    for (const host of [ecrHost, 'public.ecr.aws']) {
      const found = loginFor(host, keys);
      assert.equal(found?.kind, 'aws');
      const { accessKey, secretKey, assumeRoleArn, externalId } = found.keys;
      assert.deepEqual({ accessKey, secretKey, assumeRoleArn, externalId }, expected);
    }
  }
  assert.equal(loginFor(ecrHost, aws), undefined);
  assert.equal(loginFor('registry.example', { ...aws, accessKey: 'a', secretKey: 'b' }), undefined);
});

test('keys are written and read consistently', () => {
  for (const keys of [
    { kind: 'container-reg', username: 'u', password: 'p', registry: 'quay.io/x' },
    { kind: 'container-reg', username: 'u', password: 'p', registry: undefined },
    { kind: 'aws', accessKey: 'a', secretKey: 's', assumeRoleArn: role, externalId: 'e' },
    { kind: 'google', data: keyFile },
    { kind: 'azure', clientId: 'c', clientSecret: 's' },
    { kind: 'github', username: 'u', password: 'p' },
    { kind: 'gitlab', username: 'u', password: 'p' },
    { kind: 'other', discriminator: 'k8s' },
  ] satisfies CredentialKeys[]) {
    assert.deepEqual(readKeys(JSON.parse(JSON.stringify(keysDocument(keys)))), keys);
  }
});

test('keys of unknown kinds cause no failure, and malformed ones are ignored', () => {
  assert.deepEqual(
    readKeys({ discriminator: 'container-reg', username: 'u', password: 'p', x: [] }),
    {
      kind: 'container-reg',
      username: 'u',
      password: 'p',
      registry: undefined,
    },
  );
  assert.deepEqual(readKeys({ discriminator: 'google' }), {
    kind: 'other',
    discriminator: 'google',
  });
  assert.deepEqual(readKeys({}), { kind: 'other', discriminator: 'none' });
  for (const document of [undefined, null, 'text', 1, [], { password: 1 }]) {
    assert.equal(readKeys(document), undefined);
  }
});
