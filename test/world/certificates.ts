import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { requireCommand } from './tools.ts';

const exec = promisify(execFile);

/** Paths of PEM files. */
export interface Certificates {
  readonly authority: string;
  readonly certificate: string;
  readonly key: string;
}

/**
 * Makes an authority of its own and a server certificate that it signed for these names and
 * addresses, such as `127.0.0.1` and `registry.test`.
 */
export async function makeCertificates(
  directory: string,
  names: readonly string[] = ['127.0.0.1', 'localhost'],
): Promise<Certificates> {
  await mkdir(directory, { recursive: true });
  const file = (name: string) => join(directory, name);
  const isAddress = (name: string) => /^[\d.]+$|:/.test(name);
  const subjects = names.map(name => `${isAddress(name) ? 'IP' : 'DNS'}:${name}`);
  await writeFile(
    file('server.ext'),
    `basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth\nsubjectAltName=${subjects}\n`,
  );
  await makeKeyPair(directory, 'authority');
  const openssl = requireCommand('openssl');
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  await exec(openssl, [
    ...['req', '-new', ...key, '-subj', '/CN=server'],
    ...['-keyout', file('server.key'), '-out', file('server.csr')],
  ]);
  await exec(openssl, [
    ...['x509', '-req', '-days', '30', '-in', file('server.csr'), '-extfile', file('server.ext')],
    ...['-CA', file('authority.crt'), '-CAkey', file('authority.key'), '-CAcreateserial'],
    ...['-out', file('server.crt')],
  ]);
  return {
    authority: file('authority.crt'),
    certificate: file('server.crt'),
    key: file('server.key'),
  };
}

/** Makes an EC key and a self-signed certificate of an authority: `<name>.key`, `<name>.crt`. */
export async function makeKeyPair(
  directory: string,
  name: string,
): Promise<{ key: string; certificate: string }> {
  const [key, certificate] = [join(directory, `${name}.key`), join(directory, `${name}.crt`)];
  await exec(requireCommand('openssl'), [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
    ...['-days', '30', '-subj', `/CN=${name}`, '-keyout', key, '-out', certificate],
    ...['-addext', 'keyUsage=critical,keyCertSign,cRLSign,digitalSignature'],
  ]);
  return {
    key: await readFile(key, 'utf8'),
    certificate: await readFile(certificate, 'utf8'),
  };
}
