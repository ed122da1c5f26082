import { refuseLine, shownText } from '../definition-error.ts';
import type { DefinitionStage, Header } from '../parser.ts';
import { includedPackages, insteadOf, type StageBase } from './stage-base.ts';

/** The Docker images of distributions, by a word in the addresses of their mirrors. */
const images: readonly (readonly [RegExp, string])[] = [
  [/\bcentos/, 'centos'],
  [/\brocky/, 'rockylinux'],
  [/\balma/, 'almalinux'],
  [/\bfedora/, 'fedora'],
  [/\boracle/, 'oraclelinux'],
  [/\btumbleweed\b/, 'opensuse/tumbleweed'],
  [/\bopensuse\b/, 'opensuse/leap'],
];

/**
 * Returns the Docker image of the distribution that `yum`, `dnf` or `zypper` would install from `MirrorURL:`. Throws a
 * `Fault` with the line for a mirror that does not show its distribution or release.
 */
export function rpmBase({ headers }: DefinitionStage, bootstrap: Header): StageBase {
  const mirror = headers.get('mirrorurl');
  const address = mirror?.value.toLowerCase() ?? '';
  const [, image] = images.find(([word]) => word.test(address)) ?? [];
  if (mirror === undefined || image === undefined) {
    refuseLine(
      (mirror ?? bootstrap).line,
      `'MirrorURL:' does not name a distribution that has a Docker image (CentOS, Rocky Linux, AlmaLinux, Fedora, Oracle Linux, openSUSE): build from an image, with 'Bootstrap: docker'`,
    );
  }
  const version = headers.get('osversion');
  const release = version?.value || (/\/(\d[\d.]{0,20})(?:-\w{1,20})?\//.exec(address)?.[1] ?? '');
  const isRolling = image === 'opensuse/tumbleweed';
  if (!isRolling && !/^\d{1,4}(?:\.\d{1,8}){0,3}$/.test(release)) {
    const given =
      release === '' ? 'the release is missing' : `${shownText(release)} is not a release`;
    refuseLine((version ?? mirror).line, `${given}: write 'OSVersion:' with its number`);
  }
  const name = `${image}:${isRolling ? 'latest' : release}`;
  return {
    ...insteadOf(
      `'Bootstrap: ${bootstrap.value}', 'MirrorURL: ${mirror.value.slice(0, 80)}'`,
      bootstrap,
      name,
    ),
    packages: includedPackages(headers, /^@?[A-Za-z0-9][\w+.-]*$/),
    manager: image.startsWith('opensuse/') ? 'zypper' : 'rpm',
  };
}
