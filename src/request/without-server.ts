/** Rules and changes of a submission, as `sluice name` applies them too. */

export { architectureIn, createLayerIntake } from './layers/layer-intake.ts';
export { checkRules } from './rules.ts';
export { changeOf } from './wanted-change.ts';
