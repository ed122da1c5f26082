import { readFile } from 'node:fs/promises';

/** For containerd 1.6, which takes 127.0.0.1 for plain HTTP unless a file here says otherwise. */
export const hostsDirectory = '/etc/containerd/certs.d';

/**
 * The files of a private root, by absolute path, that make all its programs accept the certificate
 * of a server: its authority lies among those of the system. Docker skips the check on
 * 127.0.0.0/8, so a test there does not prove that it trusts.
 */
export async function trustFiles(server: {
  readonly host: string;
  readonly certificates?: { readonly authority: string } | undefined;
}): Promise<Record<string, string>> {
  const { host, certificates } = server;
  if (certificates === undefined) return {};
  const authority = await readFile(certificates.authority, 'utf8');
  return {
    [`/etc/ssl/certs/${host.replace(':', '-')}.pem`]: authority,
    [`${hostsDirectory}/${host}/hosts.toml`]: `[host."https://${host}"]\n`,
  };
}
