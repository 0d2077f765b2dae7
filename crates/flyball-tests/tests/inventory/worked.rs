//! Worked histories whose every answer was seen on v2.21.0, with the server's clock moving along: what the
//! recorded HTTP scenarios, which cannot move that clock, do not show.

use flyball::pb::RateLimitReq;
use flyball_tests::node::{TestNode, leaky, token};
use flyball_tests::script::run;

fn run_all(request: &RateLimitReq, scripts: &[&str]) {
    let node = TestNode::gubernator();
    for (number, script) in scripts.iter().enumerate() {
        run(&node, &RateLimitReq { unique_key: format!("worked {number}"), ..request.clone() }, script);
    }
}

#[test]
fn token_bucket() {
    run_all(
        &token(""),
        &[
            "h0 = U10 r60000 · h1 = U9 r60000 · h10 = O9 r60000",
            "h0 = U10 · h10 = U0 r60000 · h11 = O0 r60000 · h-1 = U1 r60000",
            "h4 = U6 · h0 = U6 · h7 = O6 · h6 = U0 · h0 = U0 · h1 = O0 · h0 = O0",
            "l2 h2 = U0 · l2 h1 = O0 · l2 h-1 = U1 · l2 h0 = U1 · l2 h1 = U0 · l2 h0 = U0",
            "l2 h2 = U0 · l2 h1 = O0 · l5 h0 = U3 · l5 h1 = U2",
            "l2 h2 = U0 · l2 h1 = O0 · l5 h0 = U3 · l2 h0 = U0",
            "l5 drain h1 = U4 · l5 drain h9 = O0 · l5 h0 = U0 · l5 h1 = O0 · l5 h0 = O0",
            "l5 drain h6 = O5 · l5 h0 = U5",
            "h4 = U6 · l5 h0 = U1 · l20 h0 = U16",
            "h9 = U1 · l3 h0 = U0 · l10 h0 = U7",
            "h4 = U6 · t100 d120000 h1 = U5 r120000",
            "h4 = U6 · t100 d30000 h1 = U5 r30000",
            "h4 = U6 · t1000 d1000 h0 = U10 r2000 · d1000 h0 = U10 r2000",
            "h4 = U6 · t1000 d1000 h1 = U9 r2000",
            "h4 = U6 · t999 d1000 h1 = U5 r1000",
            "h10 = U0 · t1000 d1000 h1 = U9 r2000 · d1000 h1 = U8 · d1000 h0 = U8",
            "l2 h2 = U0 · t2000 l2 d1000 h3 = O2 r3000",
            "h4 = U6 · reset h3 = U10 r@0 · h0 = U10 r60000",
            "reset h3 = U7",
            "h4 = U6 · leaky h1 = U9 r6000 · h1 = U9 r60000",
            "l0 h0 = U0 · l0 h1 = O0 · l0 h0 = O0 · l0 h-1 = U1",
            "l0 h1 = O0 · l0 h0 = U0",
            "l-5 h0 = O-5 · l-5 h1 = O-5 · l-5 h-1 = O-5",
            "d0 h1 = U9 r0 · d0 h1 = U8 · t1 d0 h1 = U9 r1",
            "d-1000 h1 = U9 r-1000 · d-1000 h1 = U9 r-1000",
            "d9223372036854775807 h1 = U9 · d9223372036854775807 h1 = U9",
            "l9223372036854775807 h1 = U9223372036854775806 · l9223372036854775807 h-5 = U-9223372036854775805",
            "h10 = U0 · l20 h15 = O10 · l20 h10 = U0 · l20 h1 = O0",
            "h6 = U4 · l5 h1 = O0 · l10 h0 = U5",
        ],
    );
}

#[test]
fn leaky_bucket() {
    run_all(
        &leaky(""),
        &[
            "h0 = U10 r0 · h1 = U9 r6000 · h9 = U0 r60000 · h11 = O0 r60000 · h-1 = U1 r54000",
            "h0 = U10 r0 · h10 = U0 r60000 · h-10 = U10 r0",
            "b20 h0 = U20 r-60000 · b20 h15 = U5 r30000 · b20 h21 = O5",
            "b3 h0 = U3 r42000 · b3 h4 = O3",
            "h1 = U9 · t3000 h1 = U8 r15000 · t5999 h0 = U8 r17999 · t6000 h0 = U9 r12000 · h8 = U1 · h1 = U0 r66000 · t7000 h1 = O0 r67000 · t12000 h0 = U1 r66000",
            "h10 = U0 · t9000 h1 = U0 · t12000 h0 = U1 · t15000 h0 = U1",
            "l3 d1000 h3 = U0 r999 · t333 l3 d1000 h1 = O0 · t334 l3 d1000 h1 = U0 · t666 l3 d1000 h1 = O0 · t667 l3 d1000 h1 = U0 · t1000 l3 d1000 h1 = U0 · t1001 l3 d1000 h1 = O0",
            "l300 d1000 h300 = U0 r900 · t10 l300 d1000 h0 = U3 r901 · l300 d1000 h1 = U2 r904 · t14 l300 d1000 h0 = U3 r905",
            "l2000 d1000 h1 = U1999 r0 · l2000 d1000 h100 = U1899 · t1 l2000 d1000 h100 = U1801 · t50 l2000 d1000 h0 = U1899 r50",
            "h5 = U5 · t5000 h0 = U5 · t11999 h0 = U6 · t12000 h0 = U7",
            "h8 = U2 · l5 h0 = U0 r60000",
            "h8 = U2 · l20 h0 = U12 r24000",
            "b10 h8 = U2 · l5 b10 h0 = U2 r36000 · l40 b10 h0 = U2 r57000",
            "b20 h18 = U2 · b30 h0 = U12 · b5 h0 = U0 · b4 h1 = O0",
            "b5 h5 = U0 · t15000 b5 h0 = U2 · b3 h0 = U0 · t18000 b3 h0 = U1",
            "h10 = U0 · t3000 d6000 h0 = U5 r6000 · d6000 h5 = U0 r9000",
            "drain h1 = U9 · drain h100 = O0 r6000 · h0 = U0 r60000 · h1 = O0",
            "h10 = U0 · t9000 drain h2 = O0 · t12000 h1 = O0 · t15000 h1 = U0",
            "h8 = U2 · reset h3 = U7",
            "h8 = U2 · reset h0 = U10",
            "h8 = U2 · reset h11 = O10",
            "h8 = U2 · reset drain h11 = O0 r0",
            "reset h3 = U7",
            "h9 = U1 · h1 = U0 · h-1 = U1 · h-1 = U2 · h-15 = U10 · h0 = U10",
            "l0 h0 = U0 · l0 h1 = O0",
            "l-5 h0 = O0 r60000",
            "h10 = U0 · l20 h0 = U10 · l20 h10 = U0 · l10 h0 = U0 · l20 h0 = U10",
            "l9223372036854775807 h1 = U9223372036854775806 · t100000 l9223372036854775807 h0 = U9223372036854775807",
            // The bucket is forgotten a duration after the last hit, though half of it is still missing.
            "b20 h20 = U0 · t60000 b20 h0 = U10 · t60001 b20 h0 = U20",
            // A date in the past leaks nothing; a look from the future credits leak that has not happened yet.
            "h5 = U5 · at-30000 h1 = U4 r6000 · at0 h0 = U4 · at6000 h0 = U5",
            "h10 = U0 · at60000 h0 = U10",
            // One refused request from long ago ends the bucket.
            "h10 = U0 · at-60001 h1 = O0 r-1 · h10 = U0",
        ],
    );
}

#[test]
fn scheduled_admission() {
    run_all(
        &RateLimitReq { max_wait: 120_000, ..leaky("") },
        &[
            "mw0 h10 = U0 · h1 = S0 ra6000 r66000 · h1 = S0 ra12000 · h1 = S0 ra18000 r78000 · h17 = N0 r78000 · h1 = S0 ra24000",
            "mw0 h10 = U0 · h1 = S0 ra6000 · h10 = S0 ra66000 · h9 = S0 ra120000 r180000 · h1 = O0 ra126000 · mw0 h1 = O0 r180000 · mw0 h0 = U0 · h0 = U0",
            "mw0 h10 = U0 · mw5999 h1 = O0 ra6000 · mw6000 h1 = S0 ra6000 · mw11999 h1 = O0 ra12000",
            "l1 d200000 mw1000000 h1 = U0 · l1 d200000 mw1000000 h1 = S0 ra200000 · l1 d200000 mw1000000 h1 = O0 ra400000 · l1 d200000 mw300000 h1 = O0 ra400000",
            "h11 = N10 · mw0 h0 = U10",
            "l0 b5 h3 = U2 · l0 b5 h3 = N2 · l0 b5 h0 = U2",
            "l5 d0 b5 h5 = U0 · l5 d0 b5 h1 = N0 · l5 d0 b5 mw0 h1 = O0",
            "mw0 h10 = U0 · h2 = S0 ra12000 r72000 · mw0 h1 = O0 · mw0 drain h1 = O0 · mw0 h-1 = U0 · mw0 h-100 = U0 · mw0 b20 h1 = O0 r132000 · mw1000 b20 h1 = O0 ra18000",
            "mw0 h10 = U0 · h2 = S0 ra12000 · mw0 reset h3 = U7 r18000",
            "mw0 h10 = U0 · h2 = S0 ra12000 · mw0 reset b5 h0 = U5",
            "mw0 h10 = U0 · h2 = S0 ra12000 · mw0 token h1 = U9",
            "mw0 b10 h10 = U0 · b10 h2 = S0 ra12000 · b10 l100 h1 = S0 ra1800 r7800",
            "mw0 b10 h10 = U0 · b10 h2 = S0 ra12000 · mw0 b10 l1 h1 = O0 r720000 · t72000 mw0 b10 l1 h0 = U0 · t72001 mw0 b10 l1 h0 = U10",
            "mw0 h10 = U0 · h1 = S0 ra6000 · h10 = S0 ra66000 · t125999 mw0 h0 = U9 · t126000 mw0 h0 = U10",
            "mw0 h10 = U0 · h2 = S0 ra12000 · t11999 h1 = S0 ra6001 · t12000 mw0 h0 = U0",
            "mw0 h10 = U0 · h2 = S0 ra12000 · t18000 mw0 h0 = U1 · mw0 h1 = U0 r78000 · mw0 h1 = O0 · mw6000 h1 = S0 ra6000",
            "mw0 at30000 h10 = U0 r90000 · mw5000 h1 = O0 ra36000 · mw60000 h1 = S0 ra36000 r96000",
            "mw0 h10 = U0 · h2 = S0 ra12000 · mw0 b20 h0 = U0 r132000 · t12000 mw0 b20 h0 = U0 · t18000 mw0 b25 h0 = U6",
            "mw0 h10 = U0 · h2 = S0 ra12000 · mw0 b4 h0 = U0 · t12000 mw0 b4 h0 = U0 · t18000 mw0 b4 h0 = U1 · t60000 mw0 b4 h0 = U4",
            "mw0 h9 = U1 · h3 = S0 ra12000 r72000",
            "mw0 h11 = O0 · mw60000 h10 = S0 ra60000",
            "l3 d1000 mw0 h3 = U0 · l3 d1000 mw1000 h1 = S0 ra334 r1334 · l3 d1000 mw1000 h1 = S0 ra667 · l3 d1000 mw1000 h1 = S0 ra1000",
            "l7 b1 mw0 h1 = U0 · l7 b1 h1 = S0 ra8572 r17143 · t1 l7 b1 mw10000 h1 = O0 ra17142",
            // The wall clock steps back: promised moments stay where they are.
            "mw0 h10 = U0 · h1 = S0 ra6000 · t-5000 h1 = S0 ra17000 r72000",
        ],
    );
}
