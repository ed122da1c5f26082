import { formatPlatform, type Platform } from '../../../../oci/platform.ts';
import type { StageOptions } from '../stage-options.ts';

const defaultPlatform: Platform = { os: 'linux', architecture: 'amd64' };

/**
 * Returns the variables that FROM may use without an ARG. Source: Dockerfile reference, Automatic platform ARGs in the
 * global scope.
 */
export function automaticVariables(
  options: StageOptions,
  lastStage: string | undefined,
): Map<string, string> {
  const { platform = defaultPlatform, builderPlatform = platform, buildArgs = {} } = options;
  const variables = new Map([
    ...platformVariables('BUILD', builderPlatform),
    ...platformVariables('TARGET', platform),
    ['TARGETSTAGE', options.target ?? lastStage ?? 'default'] as const,
  ]);
  for (const name of variables.keys()) {
    if (Object.hasOwn(buildArgs, name)) variables.set(name, buildArgs[name] as string);
  }
  return variables;
}

function platformVariables(prefix: string, platform: Platform): [string, string][] {
  return [
    [`${prefix}PLATFORM`, formatPlatform(platform)],
    [`${prefix}OS`, platform.os],
    [`${prefix}OSVERSION`, ''],
    [`${prefix}ARCH`, platform.architecture],
    [`${prefix}VARIANT`, platform.variant ?? ''],
  ];
}
