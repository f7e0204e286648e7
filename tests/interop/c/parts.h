/* The parts of the program; each leaves no znode behind. */
#ifndef PARTS_H
#define PARTS_H

void znodes(void);
void watches(void);
void transactions(void);
void access_rights(void);
void locks(void);
void failover(void);

#endif
