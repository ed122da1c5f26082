import { parsePackage } from '../package-spec.ts';

/**
 * Returns an environment file for the package manager. Every text is in double quotes, so that it is not read as a
 * number, a date or another YAML value. `pip` is among the packages when pip has packages to install.
 */
export function condaYaml(
  channels: readonly string[],
  packages: readonly string[],
  pip: readonly string[],
): string {
  const hasPip = packages.some(spec => parsePackage(spec)?.name === 'pip');
  const dependencies = pip.length > 0 && !hasPip ? [...packages, 'pip'] : packages;
  return [
    'channels:',
    ...channels.map(channel => `  - ${JSON.stringify(channel)}`),
    'dependencies:',
    ...dependencies.map(spec => `  - ${JSON.stringify(spec)}`),
    ...(pip.length > 0 ? ['  - pip:'] : []),
    ...pip.map(line => `      - ${JSON.stringify(line)}`),
    '',
  ].join('\n');
}
