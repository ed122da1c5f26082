/** Definition files, and the settings of Singularity images. */

export { createSifSigner, type SifSigner } from '../signing/signer.ts';
export { type Compression, compressionLevels } from '../squashfs/compression.ts';
export { isDefinition, type ShelllessBuild, translateDefinition } from './definition.ts';
export {
  changeDefinition,
  type DefinitionRuntime,
  ignoredInSif,
  imageDefinition,
} from './definition-runtime.ts';
export { sectionAt, shownText, splitStages } from './parser.ts';
