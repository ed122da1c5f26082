/** Names of images, registries and platforms. */

export {
  defaultPlatform,
  defaultPlatformName,
  formatPlatform,
  goArchitecture,
  isAttestation,
  isNestedIndex,
  listPlatforms,
  matchesPlatform,
  offeredPlatforms,
  type Platform,
  parsePlatform,
  selectPlatform,
} from './platform.ts';
export {
  canonicalRegistry,
  formatReference,
  isRepository,
  isTag,
  maxNameLength,
  parseReference,
  type Reference,
  repositoryPattern,
} from './reference.ts';
export { registryHost, withoutApi } from './registry-name.ts';
export { OciSyntaxError } from './syntax-error.ts';
