/** Definition files, and the settings of Singularity images. */

export { createSifSigner, type SifSigner } from '../signing/signer.ts';
export { type Compression, compressionLevels } from '../squashfs/compression.ts';
export { isDefinition, type ShelllessBuild, translateDefinition } from './definition.ts';
export { changeDefinition, ignoredInSif } from './definition-change.ts';
export { shownText } from './definition-error.ts';
export { type DefinitionRuntime, imageDefinition } from './definition-runtime.ts';
export { sectionAt, splitStages } from './parser.ts';
