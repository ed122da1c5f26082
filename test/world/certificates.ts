import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
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
 * Creates an authority and a server certificate for these names and addresses, such as `127.0.0.1` and `registry.test`.
 * With -1 day it has expired.
 */
export async function makeCertificates(
  directory: string,
  names: readonly string[] = ['127.0.0.1', 'localhost'],
  days = 30,
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
  await sign(directory, 'server', days);
  return {
    authority: file('authority.crt'),
    certificate: file('server.crt'),
    key: file('server.key'),
  };
}

/** Makes a certificate for clients, signed by the authority that made these; with -1 day it has expired. */
export async function makeClientCertificate(
  { authority }: Certificates,
  days = 30,
): Promise<{ certificate: string; key: string }> {
  const directory = dirname(authority);
  const name = days < 0 ? 'expired-client' : 'client';
  await writeFile(join(directory, `${name}.ext`), 'extendedKeyUsage=clientAuth\n');
  await sign(directory, name, days);
  return { certificate: join(directory, `${name}.crt`), key: join(directory, `${name}.key`) };
}

/** Makes `<name>.key` and `<name>.crt` as `<name>.ext` says, signed by the authority of the directory. */
async function sign(directory: string, name: string, days: number): Promise<void> {
  const file = (end: string) => join(directory, `${name}.${end}`);
  const authority = (end: string) => join(directory, `authority.${end}`);
  const openssl = requireCommand('openssl');
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  await exec(openssl, [
    ...['req', '-new', ...key, '-subj', `/CN=${name}`],
    ...['-keyout', file('key'), '-out', file('csr')],
  ]);
  await exec(openssl, [
    ...['x509', '-req', '-days', `${days}`, '-in', file('csr'), '-extfile', file('ext')],
    ...['-CA', authority('crt'), '-CAkey', authority('key'), '-CAcreateserial'],
    ...['-out', file('crt')],
  ]);
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
