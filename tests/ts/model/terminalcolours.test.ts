import { describe, expect, it } from 'vitest';

import { terminalText } from '../../../src/model/output';
import { styledParts } from '../../../src/model/terminalcolours';

const parts = (raw: string) => styledParts(raw, terminalText(raw));

describe('styledParts', () => {
  it.each([
    [
      '\x1b[31mred\x1b[0m plain',
      [
        ['red', 'jp-dtf-fg-1'],
        [' plain', '']
      ]
    ],
    [
      '\x1b[1;92;44mx\x1b[22my',
      [
        ['x', 'jp-dtf-bold jp-dtf-fg-10 jp-dtf-bg-4'],
        ['y', 'jp-dtf-fg-10 jp-dtf-bg-4']
      ]
    ],
    ['\x1b[32m10%\r\x1b[33m20%', [['20%', 'jp-dtf-fg-3']]],
    ['\x1b[38;5;9mbright\x1b[m', [['bright', 'jp-dtf-fg-9']]]
  ])('%j', (raw, expected) => {
    expect(parts(raw)!.map(({ text, className }) => [text, className])).toEqual(expected);
  });

  it('keeps colors other than the standard sixteen', () => {
    expect(parts('\x1b[38;2;1;2;300mx\x1b[48;5;196my')).toEqual([
      { text: 'x', className: '', colour: 'rgb(1, 2, 255)' },
      { text: 'y', className: '', colour: 'rgb(1, 2, 255)', ground: 'rgb(255, 0, 0)' }
    ]);
  });

  it.each([
    ['38:2::1:2:3', { className: '', colour: 'rgb(1, 2, 3)' }], // with an empty color space, as in ITU T.416
    ['38:2:1:2:3', { className: '', colour: 'rgb(1, 2, 3)' }], // as many programs write it
    ['38:5:9;1', { className: 'jp-dtf-bold jp-dtf-fg-9' }],
    ['31;58;5;1', { className: 'jp-dtf-fg-1' }], // the color of underlines does not apply to the text
    ['31;58:2::1:4:7', { className: 'jp-dtf-fg-1' }],
    ['31;58;2;1;4;7', { className: 'jp-dtf-fg-1' }],
    ['4:3', { className: 'jp-dtf-underline' }], // a curly underline
    ['31;4;4:0', { className: 'jp-dtf-fg-1' }],
    ['1;;32', { className: 'jp-dtf-fg-2' }]
  ])('reads %s', (codes, expected) => {
    expect(parts(`\x1b[${codes}mx`)).toEqual([{ text: 'x', ...expected }]);
  });

  it('does not style lines without colors', () => {
    expect(parts('plain')).toBeNull();
    expect(parts('\x1b[2Kcleared')).toBeNull();
    expect(parts('\x1b[0mreset')).not.toBeUndefined();
  });
});
