const sections: Readonly<Record<string, string>> = { prepare: 'post', host: 'setup', try: 'test' };

/** The section of a definition file that a step of its Dockerfile runs; undefined for any other step. */
export function sectionOfStep(step: string): string | undefined {
  const [, script = ''] = /\["\/bin\/sh","\/dev\/sluice\/(\w+)"/.exec(step) ?? [];
  const section = sections[script];
  return section && `'%${section}' of the definition file`;
}

/** What can be done where a section has failed. */
export function sectionAdvice(section: string): string {
  return section.startsWith("'%test'")
    ? "; to build without it, set 'noTest' (sluice build --no-test)"
    : '';
}
