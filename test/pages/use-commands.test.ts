/** Commands that people copy from a page. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { parse } from 'yaml';
import { shellWord, useCommands } from '../../src/pages/ask/use-commands.ts';

const textOf = (client: string, name: string, isPlainHttp = false) => {
  const found = useCommands({ name, isPlainHttp }).find(command => command.client === client);
  assert.ok(found, client);
  return found.text;
};
const name = 'sluice.example.org/ct/abc/library/ubuntu:24.04';

test('each client has its command for an image', () => {
  assert.equal(textOf('Docker', name), `docker run --rm -it ${name}`);
  assert.equal(textOf('Podman', name), `podman run --rm -it ${name}`);
  assert.equal(textOf('Apptainer', name), `apptainer shell docker://${name}`);
  assert.match(textOf('Nextflow', name), /^process\.container = 'sluice\.example\.org\/ct/);
  assert.equal(parse(textOf('Kubernetes', name)).spec.containers[0].image, name);
});

test('a Singularity image has commands for clients that can run it', () => {
  const oras = 'oras://sluice.example.org/sif/samtools:1';
  const clients = useCommands({ name: oras, isPlainHttp: false }).map(({ client }) => client);
  assert.deepEqual(clients, ['Apptainer', 'Nextflow']);
  assert.match(textOf('Apptainer', oras), /^apptainer pull image\.sif oras:\/\/sluice/);
  assert.match(textOf('Apptainer', oras, true), /--no-https/);
});

test('an image that only its user can pull says how', () => {
  const oras = 'oras://sluice.example.org/users/ada-1/sif:1';
  const [apptainer, nextflow] = useCommands({ name: oras, isPlainHttp: true, isOwn: true });
  assert.match(apptainer?.text ?? '', /^export APPTAINER_DOCKER_USERNAME=token .*SLUICE_TOKEN"\n/);
  assert.match(nextflow?.text ?? '', /^apptainer\.noHttps = true$/m);
  const frozen = 'sluice.example.org/users/ada-1/frozen:1';
  const [docker] = useCommands({ name: frozen, isPlainHttp: false, isOwn: true });
  assert.match(docker?.note ?? '', /docker login -u token sluice\.example\.org,/);
});

test('a server without TLS is named to each client', () => {
  assert.match(textOf('Podman', name, true), /--tls-verify=false/);
  assert.match(textOf('Apptainer', name, true), /--no-https/);
  const notes = (image: string) =>
    useCommands({ name: image, isPlainHttp: true }).find(({ client }) => client === 'Docker')?.note;
  assert.match(notes(name) ?? '', /insecure-registries/);
  assert.equal(notes('127.0.0.1:9090/ct/abc/ubuntu:24.04'), undefined);
});

test('a name cannot run anything in a shell, nor leave its text in a file', () => {
  for (const hostile of [
    "it's",
    '$(touch /tmp/x)',
    '`id`',
    'a b;c',
    '"quoted"',
    "'; rm -rf / #",
    '\u202eelif',
    'x'.repeat(10_000),
  ]) {
    const echoed = execFileSync('sh', ['-c', `printf %s ${shellWord(hostile)}`], {
      encoding: 'utf8',
    });
    assert.equal(echoed, hostile);
    assert.equal(parse(textOf('Kubernetes', hostile)).spec.containers[0].image, hostile);
    const groovy = textOf('Nextflow', hostile).split('\n')[0] ?? '';
    assert.match(groovy, /^process\.container = '(?:[^'\\]|\\.)*'$/);
  }
});
