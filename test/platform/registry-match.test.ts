import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ecrRegistry } from '../../src/platform/credentials/ecr-registry.ts';
import {
  candidatesFor,
  credentialScope,
  isAzureRegistry,
  isGoogleRegistry,
  isWithin,
  parseScope,
} from '../../src/platform/credentials/registry-match.ts';
import type { CredentialEntry } from '../../src/platform/workflow-platform.ts';

test('the registry of an entry is recognised in every notation', () => {
  for (const [text, host, path] of [
    [undefined, 'docker.io', ''],
    ['', 'docker.io', ''],
    ['docker.io', 'docker.io', ''],
    ['index.docker.io', 'docker.io', ''],
    ['https://index.docker.io/v1/', 'docker.io', ''],
    ['https://registry-1.docker.io/v2/', 'docker.io', ''],
    ['index.docker.io/v1', 'docker.io', ''],
    ['docker.io/v2', 'docker.io', ''],
    ['docker.io/xv1', 'docker.io', 'xv1'],
    ['docker.io/v1x', 'docker.io', 'v1x'],
    ['docker.io/lab', 'docker.io', 'lab'],
    ['lab', 'docker.io', 'lab'],
    ['lab/tools', 'docker.io', 'lab/tools'],
    ['quay.io', 'quay.io', ''],
    ['QUAY.io/Team/', 'quay.io', 'Team'],
    ['https://europe-docker.pkg.dev/project/repo', 'europe-docker.pkg.dev', 'project/repo'],
    ['localhost:5000', 'localhost:5000', ''],
    ['localhost/x', 'localhost', 'x'],
    ['[::1]:5000/a//b', '[::1]:5000', 'a/b'],
    ['registry.example/v2', 'registry.example', 'v2'],
    ['https://registry.example/v2/', 'registry.example', ''],
    ['registry.example:5000/v2/', 'registry.example:5000', ''],
    ['https://registry.example/v2/team', 'registry.example', 'v2/team'],
  ] as const) {
    assert.deepEqual(parseScope(text), { host, path }, text);
  }
});

test('credentials for a name that is not a registry match nothing, and not Docker Hub', () => {
  for (const name of ['harbor', 'quayio', '0', 'lab/tools', '1.2', 'https://harbor/v2/']) {
    assert.equal(credentialScope(name), undefined, name);
    const entries = [entry('own', name)];
    for (const repository of ['harbor/app', 'quayio/app', '0/app', 'lab/tools', 'library/alpine']) {
      assert.deepEqual(candidatesFor(entries, 'docker.io', repository), [], name);
    }
  }
  assert.deepEqual(credentialScope(undefined), { host: 'docker.io', path: '' });
  assert.deepEqual(credentialScope('localhost/x'), { host: 'localhost', path: 'x' });
});

const entry = (id: string, registry: string | undefined, provider = 'container-reg') =>
  ({ id, name: id, provider, registry }) satisfies CredentialEntry;

const entries = [
  entry('hub', undefined),
  entry('hub-lab', 'docker.io/lab'),
  entry('quay', 'quay.io'),
  entry('quay-team', 'quay.io/team'),
  entry('quay-deep', 'https://quay.io/team/deep/'),
  entry('quay-again', 'quay.io'),
  entry('local', '127.0.0.1:5000'),
  entry('aws', undefined, 'aws'),
  entry('ecr', '123456789012.dkr.ecr.eu-west-1.amazonaws.com'),
  entry('google', undefined, 'google'),
  entry('azure', undefined, 'azure_entra'),
  entry('github', undefined, 'github'),
  entry('ghcr', 'ghcr.io/lab', 'github'),
];

test('the exact host precedes the longest path, which precedes a cloud account', () => {
  for (const [registry, repository, ids] of [
    ['docker.io', 'library/alpine', ['hub']],
    ['registry-1.docker.io', 'lab/tool', ['hub-lab', 'hub']],
    ['docker.io', 'laboratory/tool', ['hub']],
    ['quay.io', 'team/deep/app', ['quay-deep', 'quay-team', 'quay', 'quay-again']],
    ['quay.io', 'team/deeper', ['quay-team', 'quay', 'quay-again']],
    ['quay.io', 'team', ['quay-team', 'quay', 'quay-again']],
    ['quay.io', 'teams/app', ['quay', 'quay-again']],
    ['QUAY.IO', 'other', ['quay', 'quay-again']],
    ['quay.io', undefined, ['quay', 'quay-again']],
    ['quay.io:8443', 'team/app', []],
    ['sub.quay.io', 'team/app', []],
    ['quay.io.evil.example', 'team/app', []],
    ['127.0.0.1:5000', 'x', ['local']],
    ['127.0.0.1:5001', 'x', []],
    ['123456789012.dkr.ecr.eu-west-1.amazonaws.com', 'x', ['ecr', 'aws']],
    ['210987654321.dkr.ecr.cn-north-1.amazonaws.com.cn', 'x', ['aws']],
    ['public.ecr.aws', 'x/y', ['aws']],
    ['europe-docker.pkg.dev', 'project/repo/x', ['google']],
    ['eu.gcr.io', 'project/x', ['google']],
    ['lab.azurecr.io', 'x', ['azure']],
    ['ghcr.io', 'lab/x', ['ghcr']],
    ['ghcr.io', 'other/x', []],
  ] as const) {
    const found = candidatesFor(entries, registry, repository).map(({ entry: { id } }) => id);
    assert.deepEqual(found, ids, `${registry}/${repository}`);
  }
});

test('only hosts of AWS are its registries', () => {
  for (const [host, region] of [
    ['123456789012.dkr.ecr.us-east-1.amazonaws.com', 'us-east-1'],
    ['123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com', 'us-gov-west-1'],
    ['123456789012.dkr.ecr.cn-northwest-1.amazonaws.com.cn', 'cn-northwest-1'],
    ['public.ecr.aws', 'us-east-1'],
    ['12345.dkr.ecr.us-east-1.amazonaws.com', undefined],
    ['123456789012.dkr.ecr.us-east-1.amazonaws.com.evil.example', undefined],
    ['123456789012.dkr.ecr.evil.example/.amazonaws.com', undefined],
    ['123456789012.dkr.ecr.a.b-1.amazonaws.com', undefined],
    ['evil.example', undefined],
  ] as const) {
    assert.equal(ecrRegistry(host)?.region, region, host);
  }
});

test('only hosts of Google and of Azure are theirs', () => {
  for (const [host, google, azure] of [
    ['gcr.io', true, false],
    ['eu.gcr.io', true, false],
    ['evilgcr.io', false, false],
    ['gcr.io.evil.example', false, false],
    ['gcr-io', false, false],
    ['europe-west1-docker.pkg.dev', true, false],
    ['evil.example-docker.pkg.dev', false, false],
    ['-docker.pkg.dev', false, false],
    ['europe-docker.pkg.dev.evil.example', false, false],
    ['lab.azurecr.io', false, true],
    ['lab.azurecr.cn', false, true],
    ['lab.azurecr.us', false, true],
    ['lab.azurecr.io.evil.example', false, false],
    ['azurecr.io', false, false],
    ['lab.azurecr.com', false, false],
  ] as const) {
    assert.deepEqual([isGoogleRegistry(host), isAzureRegistry(host)], [google, azure], host);
  }
});

test('a scope with a path contains the repositories at and below it, and nothing else', () => {
  const whole = parseScope('quay.io');
  const part = parseScope('quay.io/team');
  for (const [repository, isInWhole, isInPart] of [
    ['team', true, true],
    ['team/app', true, true],
    ['teams/app', true, false],
    ['my/team', true, false],
    [undefined, true, false],
  ] as const) {
    assert.equal(isWithin(whole, 'QUAY.io', repository), isInWhole);
    assert.equal(isWithin(part, 'quay.io', repository), isInPart, repository);
    assert.ok(!isWithin(whole, 'docker.io', repository));
    assert.ok(!isWithin(undefined, 'quay.io', repository));
  }
  assert.ok(!isWithin(parseScope('quay.io/undefined'), 'quay.io', undefined));
});

test('only a registry of containers without a name is Docker Hub, and accounts of clouds only their cloud', () => {
  const providers = ['container-reg', 'aws', 'google', 'azure_entra', 'azure-x', 'github', 'awsx'];
  const entries = providers.map(provider => entry(provider, undefined, provider));
  for (const [registry, ids] of [
    ['docker.io', ['container-reg']],
    ['lab.azurecr.io', ['azure_entra', 'azure-x']],
    ['gcr.io', ['google']],
    ['public.ecr.aws', ['aws']],
    ['ghcr.io', []],
  ] as const) {
    const found = candidatesFor(entries, registry, 'x/y');
    assert.deepEqual(
      found.map(one => one.entry.id),
      ids,
      registry,
    );
    assert.ok(found.every(({ isNamed }) => isNamed === (registry === 'docker.io')));
  }
});

test('a blank name of a registry is Docker Hub', () => {
  for (const name of ['', ' ', undefined]) {
    assert.deepEqual(credentialScope(name), { host: 'docker.io', path: '' });
  }
});
